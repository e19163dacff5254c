package logs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/replay/logs"
	"github.com/zeroae/zae-limiter-go/store"
)

// benchmarkEvents is the number of events of an entity in a log of a benchmark.
const benchmarkEvents = 20

// benchmarkLogs are logs of the same events of a number of entities in each format.
func benchmarkLogs(entities int) map[logs.Format][]byte {
	dice := rand.New(rand.NewPCG(1, 2))
	written := map[logs.Format]*bytes.Buffer{logs.JSON: {}, logs.CSV: {}, logs.Common: {}, logs.Combined: {}, logs.ALB: {}}
	written[logs.CSV].WriteString("time,entity,resource,tokens,status\n")
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for range benchmarkEvents * entities {
		at = at.Add(time.Duration(dice.IntN(20)) * time.Millisecond)
		entity, tokens := dice.IntN(entities), dice.IntN(2000)
		stamp := at.Format("2006-01-02T15:04:05.000Z")
		fmt.Fprintf(written[logs.JSON], `{"time":"%s","entity":"key-%d","resource":"gpt-4","tokens":%d,"status":200}`+"\n", stamp, entity, tokens)
		fmt.Fprintf(written[logs.CSV], "%s,key-%d,gpt-4,%d,200\n", stamp, entity, tokens)
		common := fmt.Sprintf(`10.0.%d.%d - - [%s] "GET /v1/models HTTP/1.1" 200 %d`,
			entity/256, entity%256, at.Format("02/Jan/2006:15:04:05 -0700"), tokens)
		fmt.Fprintln(written[logs.Common], common)
		fmt.Fprintln(written[logs.Combined], common+` "-" "curl/8.5.0"`)
		fmt.Fprintf(written[logs.ALB], `https %s app/lb/50dc6c495c0c9188 10.0.%d.%d:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 %d "GET https://www.example.com:443/ HTTP/1.1" "curl/7.46.0" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn" 1 %s "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`+"\n",
			stamp, entity/256, entity%256, tokens, stamp)
	}
	all := map[logs.Format][]byte{}
	for format, b := range written {
		all[format] = b.Bytes()
	}
	return all
}

// BenchmarkReplay reads a log, and reads and decides it, of buckets that a processor's caches
// hold and of more. Each operation is one log; the metric events/cpu-s counts events in a
// second of processor time.
func BenchmarkReplay(b *testing.B) {
	column := map[logs.Format]string{
		logs.JSON: "tokens", logs.CSV: "tokens", logs.Common: "bytes", logs.Combined: "bytes", logs.ALB: "sent_bytes",
	}
	for _, entities := range []int{10_000, 100_000} {
		for format, text := range benchmarkLogs(entities) {
			o := logs.Options{Costs: []logs.Cost{{Limit: "rpm", Tokens: 1}, {Limit: "tpm", Column: column[format]}}}
			name := fmt.Sprintf("%d buckets/%s", entities, format)
			b.Run("parse/"+name, func(b *testing.B) { run(b, text, o, entities, false) })
			b.Run("parse and decide/"+name, func(b *testing.B) { run(b, text, o, entities, true) })
			if format == logs.JSON {
				b.Run("gzip/"+name, func(b *testing.B) { run(b, zipped(b, text), o, entities, true) })
				b.Run("late/"+name, func(b *testing.B) { run(b, late(text), o, entities, true) })
			}
		}
	}
}

// late is a log whose lines are shuffled among those near them: about 5 s.
func late(text []byte) []byte {
	lines, dice := bytes.SplitAfter(text, []byte{'\n'}), rand.New(rand.NewPCG(3, 4))
	for some := range slices.Chunk(lines[:len(lines)-1], 500) {
		dice.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	return bytes.Join(lines, nil)
}

func run(b *testing.B, text []byte, o logs.Options, entities int, decide bool) {
	b.Helper()
	b.ReportAllocs()
	before := processor(b)
	for b.Loop() {
		r, err := logs.NewReader(bytes.NewReader(text), o)
		if err != nil {
			b.Fatal(err)
		}
		if n := through(b, r, decide); n != benchmarkEvents*entities {
			b.Fatalf("%d events of %d entities; %+v", n, entities, r.Malformed())
		}
	}
	b.ReportMetric(float64(b.N*benchmarkEvents*entities)/(processor(b)-before).Seconds(), "events/cpu-s")
}

// processor is the processor time of the process, garbage collection included. Elapsed
// time would also count the other work of a busy machine.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// through passes a log through, and counts its events.
func through(b *testing.B, r *logs.Reader, decide bool) (n int) {
	b.Helper()
	decider, err := replay.New(replay.Options{Costs: []string{"rpm", "tpm"}, Levels: replay.Levels{
		store.ConfigKey{}: {
			{Name: "rpm", Capacity: 10, Amount: 10, Period: time.Minute},
			{Name: "tpm", Capacity: 10_000, Amount: 10_000, Period: time.Minute},
		},
	}})
	if err != nil {
		b.Fatal(err)
	}
	source := replay.Order(r, 10*time.Second, 100_000)
	if !decide {
		source = r
	}
	var e replay.Event
	for {
		err := source.Next(&e)
		if errors.Is(err, io.EOF) {
			return n
		}
		if err == nil && decide {
			_, err = decider.Add(&e)
		}
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
}
