package store_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/redistest"
	"github.com/abide-proxy/abide/store/reference"
)

// BenchmarkExchange is one Batch with one Ask at a time, of a site that so many
// instances share. The clock is the server's.
func BenchmarkExchange(b *testing.B) {
	server := redistest.Start(b)
	redis := connect(b, addressOf(server), nil)
	for _, one := range []struct {
		name string
		s    store.Store
	}{{"reference", reference.New(nil)}, {"redis", redis}} {
		for _, instances := range []int{1, 10, 100} {
			b.Run(fmt.Sprintf("%s/instances=%d", one.name, instances), func(b *testing.B) {
				seq := uint64(time.Now().UnixNano())
				for b.Loop() {
					seq++
					exchange(b, one.s, bench(seq, instances, 1))
				}
			})
		}
	}
	// Many sites in one round trip, and the processor's time of the server for one.
	for _, instances := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("redis/50 sites/instances=%d", instances), func(b *testing.B) {
			seq, before := uint64(time.Now().UnixNano()), processor(server)
			for b.Loop() {
				seq++
				exchange(b, redis, bench(seq, instances, 50))
			}
			b.ReportMetric((processor(server)-before)*1e6/float64(b.N)/50, "µs/batch")
		})
	}
}

// BenchmarkScript measures the server's time for one Batch with one Ask, when so many
// instances have something of the budget.
func BenchmarkScript(b *testing.B) {
	server := redistest.Start(b)
	redis := connect(b, addressOf(server), nil)
	for _, instances := range []int{1, 10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			seq := uint64(time.Now().UnixNano())
			for range instances {
				seq++
				exchange(b, redis, bench(seq, instances, 1))
			}
			server.Do("CONFIG", "RESETSTAT")
			for b.Loop() {
				seq++
				exchange(b, redis, bench(seq, instances, 1))
			}
			_, text, _ := strings.Cut(server.Do("INFO", "commandstats").(string), "cmdstat_evalsha:")
			_, text, _ = strings.Cut(text, "usec_per_call=")
			text, _, _ = strings.Cut(text, ",")
			each, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(each, "server-µs/batch")
		})
	}
}

// BenchmarkNewSites measures the server's cost of sites that so many instances ask for, each
// of them once.
func BenchmarkNewSites(b *testing.B) {
	server := redistest.Start(b)
	redis := connect(b, addressOf(server), nil)
	number := func(section, field string) float64 {
		_, text, _ := strings.Cut(server.Do("INFO", section).(string), field+":")
		text, _, _ = strings.Cut(text, "\r")
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	for _, instances := range []int{1, 2, 100} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			server.Do("FLUSHALL")
			connect(b, addressOf(server), nil)
			bytes, in, out, used := number("memory", "used_memory"), number("stats", "total_net_input_bytes"), number("stats", "total_net_output_bytes"), processor(server)
			site, list := 0, make([]store.Batch, 100)
			for b.Loop() {
				for i := range list {
					list[i] = store.Batch{
						Site: fmt.Sprintf("www.site-%06d.example", site/instances), Instance: fmt.Sprint("instance ", site%instances),
						Asks: []store.Ask{{Key: "requests", Kind: store.Fixed, Amount: 900, Window: 15 * time.Minute, Seq: uint64(1000 + site), Want: 10, Past: 1<<63 - 1}},
					}
					site++
				}
				exchange(b, redis, list)
			}
			batches, sites := float64(site), float64((site+instances-1)/instances)
			b.ReportMetric((number("memory", "used_memory")-bytes)/sites, "B/site")
			b.ReportMetric((number("stats", "total_net_input_bytes")-in)/batches, "B-in/batch")
			b.ReportMetric((number("stats", "total_net_output_bytes")-out)/batches, "B-out/batch")
			b.ReportMetric((processor(server)-used)*1e6/batches, "server-µs/batch")
		})
	}
}

// processor returns the seconds of processor time that a server has used.
func processor(server *redistest.Server) (seconds float64) {
	for line := range strings.Lines(server.Do("INFO", "cpu").(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil && (name == "used_cpu_user" || name == "used_cpu_sys") {
			seconds += n
		}
	}
	return seconds
}

func bench(seq uint64, instances, sites int) []store.Batch {
	list := make([]store.Batch, sites)
	for i := range list {
		list[i] = store.Batch{
			Site: fmt.Sprintf("site%d-%d", instances, i), Instance: fmt.Sprintf("instance-%d", seq%uint64(instances)),
			Asks: []store.Ask{{Key: "k", Kind: store.Fixed, Amount: 1 << 40, Window: 15 * time.Minute, Seq: seq, Want: 10}},
		}
	}
	return list
}

func exchange(b *testing.B, s store.Store, batches []store.Batch) {
	if _, err := s.Exchange(context.Background(), batches); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPulse is one pulse at a time, of a fleet of a size. core is the part of one
// core of the server that the pulses of the whole fleet take.
func BenchmarkPulse(b *testing.B) {
	for _, members := range []int{1, 10, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			server := redistest.Start(b)
			redis, err := pulsing(b.Context(), addressOf(server), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer redis.Close()
			pulse := func(n int) {
				m := store.Member{
					ID: fmt.Sprintf("%016x", n%members), Name: fmt.Sprintf("crawler-%d.example:%d", n%members, n%members),
					Lifetime: time.Hour,
				}
				if _, err := redis.Pulse(b.Context(), m); err != nil {
					b.Fatal(err)
				}
			}
			for n := range members {
				pulse(n)
			}
			n, before := 0, processor(server)
			for b.Loop() {
				pulse(n)
				n++
			}
			each := (processor(server) - before) / float64(n)
			b.ReportMetric(each*1e6, "server-µs/pulse")
			b.ReportMetric(100*each*float64(members)/store.Beat(members).Seconds(), "%core")
		})
	}
}
