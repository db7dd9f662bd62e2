// Kafka's timer, apart from the others because its classes may be missing.

import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

public final class Kafka implements World.Timers {
    private final SystemTimer timer = new SystemTimer("worlds");

    public Kafka() {
        // As a broker turns it.
        Thread reaper = new Thread(() -> {
            try {
                while (true) {
                    timer.advanceClock(200);
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        reaper.setDaemon(true);
        reaper.start();
    }

    @Override
    public Runnable arm(long nanos, Runnable task) {
        // It counts in milliseconds; rounded up, as nothing may end early.
        TimerTask armed = new TimerTask((nanos + 999_999) / 1_000_000) {
            @Override
            public void run() {
                task.run();
            }
        };
        timer.add(armed);
        return armed::cancel;
    }
}
