package dynamolite_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// A stream keeps as many bytes as it may, also after it was reopened. It says that it drops
// younger records, once a minute and with their number, to the log and to readers that have not
// read them.
func TestStreamRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		dir := t.TempDir()
		f := &streamFixture{fixture: &fixture{t: t}}
		open := func() {
			var err error
			f.db, err = dynamolite.Open(dynamolite.Options{Dir: dir, StreamBytes: 64 << 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
		}
		open()
		f.arn = f.create(mainTable, types.StreamViewTypeNewImage)
		write := func() {
			f.put(with(keyed("a", "1"), attrs{"x": str(strings.Repeat("x", 4<<10) + time.Now().String())}))
		}
		write()
		late := f.from(f.shardOfA(), trimHorizon)
		for range 30 {
			write()
			time.Sleep(time.Second)
		}
		synctest.Wait() // the reports
		if got := log.String(); strings.Count(got, "stream records were dropped") != 1 || !strings.Contains(got, "table=main") || !strings.Contains(got, "records=1 ") {
			t.Errorf("logged %s", got)
		}
		if got := len(f.records()); got < 10 || got > 16 {
			t.Errorf("the stream has %d records of 4 KiB, want those of 64 KiB", got)
		}
		_, err := f.db.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: late})
		if _, ok := errors.AsType[*streamtypes.TrimmedDataAccessException](err); !ok {
			t.Errorf("a reader that fell behind got %v", err)
		}

		log.Reset()
		time.Sleep(time.Minute)
		closeDB(t, f.db)
		open() // reads the log, and drops again what was dropped
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("opening logged %s", &log)
		}
		for range 20 {
			write()
		}
		synctest.Wait()
		if got := strings.Count(log.String(), "stream records were dropped"); got != 1 {
			t.Errorf("%d reports, want 1: %s", got, &log)
		}
		if got := len(f.records()); got < 10 || got > 16 {
			t.Errorf("the stream has %d records after it was reopened", got)
		}
		closeDB(t, f.db)
	})
}

func TestStreamBytesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := dynamolite.Open(dynamolite.Options{StreamBytes: -1})
	if e, ok := errors.AsType[*dynamolite.OptionError](err); !ok || e.Option != "StreamBytes" {
		t.Errorf("got %v", err)
	}
}
