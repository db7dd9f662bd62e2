// The timers of the JVM, measured for `rivals worlds` and printed in its format. See README.md.

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

import io.netty.util.HashedWheelTimer;

public final class World {
    /** A library of timers. */
    interface Timers {
        /** Arms a timer, and returns what cancels it. */
        Runnable arm(long nanos, Runnable task);
    }

    private static final long SECOND = 1_000_000_000;
    private static final ExecutorService CALLERS = Executors.newFixedThreadPool(2);

    public static void main(String[] arguments) throws Exception {
        Timers timers = open(arguments[0]);
        int population = Integer.parseInt(arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        long round = Long.parseLong(arguments[3]) * 1_000_000;
        int sleepers = Integer.parseInt(arguments[4]);
        long firing = Long.parseLong(arguments[5]) * 1_000_000;

        SplittableRandom random = new SplittableRandom(0);
        List<Runnable> kept = new ArrayList<>();
        kept.add(timers.arm(20 * SECOND, () -> {}));
        for (int number = 0; number < population; number++) {
            kept.add(timers.arm(random.nextLong(3_600 * SECOND, 4_600 * SECOND), () -> {}));
        }
        long[] durations = random.longs(256, 30 * SECOND, 40 * SECOND).toArray();
        for (int threads = 1; threads <= 2; threads++) {
            // Warms up, until the JVM has compiled the code.
            armAndCancel(timers, threads, durations, 6 * round);
            for (int number = 0; number < rounds; number++) {
                double[] figures = armAndCancel(timers, threads, durations, round);
                System.out.println("arm " + threads + " " + figures[0] + " " + figures[1]);
            }
        }
        fire(timers, sleepers, firing, random);
        System.exit(kept.isEmpty() ? 1 : 0);
    }

    private static Timers open(String name) throws Exception {
        switch (name) {
            case "netty":
                // Its shortest tick; no limit on pending timers.
                HashedWheelTimer wheel = new HashedWheelTimer(1, TimeUnit.MILLISECONDS);
                return (nanos, task) -> wheel.newTimeout(timeout -> task.run(), nanos, TimeUnit.NANOSECONDS)::cancel;
            case "jdk":
                ScheduledThreadPoolExecutor pool = new ScheduledThreadPoolExecutor(1);
                pool.setRemoveOnCancelPolicy(true);
                return (nanos, task) -> {
                    var scheduled = pool.schedule(task, nanos, TimeUnit.NANOSECONDS);
                    return () -> scheduled.cancel(false);
                };
            default:
                return (Timers) Class.forName("Kafka").getDeclaredConstructor().newInstance();
        }
    }

    /** Nanoseconds per timer: of its thread, and of CPU time of the process. */
    private static double[] armAndCancel(Timers timers, int threads, long[] durations, long length) throws Exception {
        CyclicBarrier gate = new CyclicBarrier(threads);
        double[] nanos = new double[threads];
        long[] operations = new long[threads];
        List<Future<?>> running = new ArrayList<>();
        long processor = processor();
        for (int thread = 0; thread < threads; thread++) {
            int place = thread;
            running.add(CALLERS.submit(() -> {
                gate.await();
                long begun = System.nanoTime();
                long now = begun;
                while (now - begun < length) {
                    for (int number = 0; number < 1_000; number++) {
                        timers.arm(durations[number & 255], () -> {}).run();
                    }
                    operations[place] += 1_000;
                    now = System.nanoTime();
                }
                nanos[place] = (now - begun) / (double) operations[place];
                return null;
            }));
        }
        for (Future<?> caller : running) {
            caller.get();
        }
        // Includes the work that callers left to the timer's thread.
        Thread.sleep(10);
        return new double[] {
            Arrays.stream(nanos).sum() / threads, (processor() - processor) / (double) Arrays.stream(operations).sum()
        };
    }

    /** Lets timers of 1 to 10 ms fire, each of which arms the next, and prints their lateness and CPU time. */
    private static void fire(Timers timers, int sleepers, long length, SplittableRandom random) throws Exception {
        long begin = System.nanoTime() + length / 2;
        long end = begin + length;
        List<Sleeper> all = new ArrayList<>();
        for (int number = 0; number < sleepers; number++) {
            Sleeper sleeper = new Sleeper(timers, random.split(), begin, end);
            all.add(sleeper);
            sleeper.arm();
        }
        Thread.sleep((begin - System.nanoTime()) / 1_000_000);
        long processor = processor();
        Thread.sleep((end - System.nanoTime()) / 1_000_000);
        processor = processor() - processor;
        Thread.sleep(50);
        long[] late = all.stream().flatMapToLong(sleeper -> Arrays.stream(sleeper.late, 0, sleeper.count)).sorted().toArray();
        System.out.println("fire " + late[late.length / 2] + " " + late[late.length * 99 / 100] + " "
            + processor / (double) late.length + " " + late.length);
    }

    private static final class Sleeper implements Runnable {
        private final Timers timers;
        private final SplittableRandom random;
        private final long begin;
        private final long end;
        private long deadline;
        private volatile int count;
        private final long[] late = new long[10_000];

        Sleeper(Timers timers, SplittableRandom random, long begin, long end) {
            this.timers = timers;
            this.random = random;
            this.begin = begin;
            this.end = end;
        }

        void arm() {
            long length = random.nextLong(1_000_000, 10_000_000);
            deadline = System.nanoTime() + length;
            timers.arm(length, this);
        }

        @Override
        public void run() {
            long now = System.nanoTime();
            if (now >= begin && now < end) {
                late[count] = now - deadline;
                count += 1;
            }
            if (now < end) {
                arm();
            }
        }
    }

    /** CPU time of all living threads, in nanoseconds. The JVM's own figure has steps of 10 ms. */
    private static long processor() throws IOException {
        long sum = 0;
        try (DirectoryStream<Path> threads = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (Path thread : threads) {
                sum += Long.parseLong(Files.readString(thread.resolve("schedstat")).split(" ")[0]);
            }
        } catch (NoSuchFileException ended) {
            // A thread has ended in between.
            return processor();
        }
        return sum;
    }
}
