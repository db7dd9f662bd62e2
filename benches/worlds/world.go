// The timers of Go's runtime, measured for `rivals worlds` and printed in its format. See README.md.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func main() {
	number := func(place int) int {
		n, err := strconv.Atoi(os.Args[place])
		if err != nil {
			panic(err)
		}
		return n
	}
	population, rounds, sleepers := number(2), number(3), number(5)
	round, firing := time.Duration(number(4))*time.Millisecond, time.Duration(number(6))*time.Millisecond

	random := rand.New(rand.NewSource(0))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int63n(int64(to-from))) }
	nothing := func() {}
	kept := []*time.Timer{time.AfterFunc(20*time.Second, nothing)}
	for len(kept) <= population {
		kept = append(kept, time.AfterFunc(between(3_600*time.Second, 4_600*time.Second), nothing))
	}
	var durations [256]time.Duration
	for place := range durations {
		durations[place] = between(30*time.Second, 40*time.Second)
	}
	for threads := 1; threads <= 2; threads++ {
		armAndCancel(threads, &durations, round)
		for number := 0; number < rounds; number++ {
			nanos, processor := armAndCancel(threads, &durations, round)
			fmt.Println("arm", threads, nanos, processor)
		}
	}
	fire(sleepers, firing, random)
	kept[0].Stop()
}

// Nanoseconds per timer: of its goroutine, and of CPU time of the process.
func armAndCancel(threads int, durations *[256]time.Duration, length time.Duration) (float64, float64) {
	nanos, operations := make([]float64, threads), make([]float64, threads)
	var gate, running sync.WaitGroup
	gate.Add(threads)
	running.Add(threads)
	processor := processorTime()
	for thread := 0; thread < threads; thread++ {
		go func(place int) {
			defer running.Done()
			gate.Done()
			gate.Wait()
			begun := time.Now()
			for time.Since(begun) < length {
				for number := 0; number < 1_000; number++ {
					time.AfterFunc(durations[number&255], func() {}).Stop()
				}
				operations[place] += 1_000
			}
			nanos[place] = float64(time.Since(begun)) / operations[place]
		}(thread)
	}
	running.Wait()
	// Includes the work that is left to the garbage collector.
	time.Sleep(10 * time.Millisecond)
	var sum, all float64
	for place := range nanos {
		sum += nanos[place]
		all += operations[place]
	}
	return sum / float64(threads), float64(processorTime()-processor) / all
}

// Lets goroutines sleep 1 to 10 ms repeatedly, and prints their lateness and CPU time.
func fire(sleepers int, length time.Duration, random *rand.Rand) {
	begin := time.Now().Add(length / 2)
	end := begin.Add(length)
	late := make([][]time.Duration, sleepers)
	var running sync.WaitGroup
	running.Add(sleepers)
	for sleeper := range late {
		go func(place int, random *rand.Rand) {
			defer running.Done()
			for now := time.Now(); now.Before(end); {
				length := time.Millisecond + time.Duration(random.Int63n(int64(9*time.Millisecond)))
				deadline := time.Now().Add(length)
				time.Sleep(length)
				now = time.Now()
				if now.After(begin) && now.Before(end) {
					late[place] = append(late[place], now.Sub(deadline))
				}
			}
		}(sleeper, rand.New(rand.NewSource(random.Int63())))
	}
	time.Sleep(time.Until(begin))
	processor := processorTime()
	time.Sleep(time.Until(end))
	processor = processorTime() - processor
	running.Wait()
	var all []time.Duration
	for _, some := range late {
		all = append(all, some...)
	}
	sort.Slice(all, func(one, other int) bool { return all[one] < all[other] })
	fmt.Println("fire", int64(all[len(all)/2]), int64(all[len(all)*99/100]), float64(processor)/float64(len(all)), len(all))
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
