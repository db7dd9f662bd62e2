// The only part of Kafka's class of this name that its timer uses: the whole needs all of Kafka's clients.
package org.apache.kafka.common.utils;

public interface Time {
    Time SYSTEM = () -> System.nanoTime() / 1_000_000;

    long hiResClockMs();
}
