package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/zeroae/zae-limiter-go/dynamo/stream"
)

// image is the image of a bucket with two limits.
func image(entity string, consumed int) string {
	return fmt.Sprintf(`{"PK":{"S":"ns/BUCKET#%[1]s#openai/gpt-4#0"},"SK":{"S":"#STATE"},"entity_id":{"S":"%[1]s"},"rf":{"N":"1700000000000"},`+
		`"created":{"N":"1600000000000"},"shard_count":{"N":"1"},"cascade":{"BOOL":false},"parent_id":{"S":"org"},"ttl":{"N":"1800000000"},`+
		`"b_rpm_tk":{"N":"60000"},"b_rpm_cp":{"N":"60000"},"b_rpm_ra":{"N":"60000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"%[2]d"},`+
		`"b_tpm_tk":{"N":"-5"},"b_tpm_cp":{"N":"90000"},"b_tpm_ra":{"N":"90000"},"b_tpm_rp":{"N":"60000"},"b_tpm_tc":{"N":"%[2]d"},`+
		`"b_wcu_tk":{"N":"999000"},"b_wcu_cp":{"N":"1000000"},"b_wcu_ra":{"N":"1000000"},"b_wcu_rp":{"N":"1000"},"b_wcu_tc":{"N":"%[2]d"}}`, entity, consumed)
}

// record is a record of a bucket. Its images are members of the record.
func record(sequence int, event, entity, images string) string {
	return fmt.Sprintf(`{"eventID":"id%[1]d","eventName":"%[2]s","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"us-east-1","dynamodb":{`+
		`"ApproximateCreationDateTime":1.7E9,"Keys":{"SK":{"S":"#STATE"},"PK":{"S":"ns/BUCKET#%[3]s#openai/gpt-4#0"}},%[4]s`+
		`"SequenceNumber":"%[1]d","SizeBytes":1000,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`, sequence, event, entity, images)
}

// modified is a record of an acquire.
func modified(sequence int, entity string) string {
	return record(sequence, "MODIFY", entity, `"NewImage":`+image(entity, sequence+1)+`,"OldImage":`+image(entity, sequence)+`,`)
}

func pageOf(records ...string) string {
	return `{"NextShardIterator":"next","Records":[` + strings.Join(records, ",") + `]}`
}

// oddities are records that readers of the usual ones may read wrongly.
func oddities() map[string]string {
	inserted := record(7, "INSERT", "user", `"NewImage":`+image("user", 7)+`,`)
	instead := func(old, is string) string {
		if !strings.Contains(inserted, old) {
			panic(old)
		}
		return strings.Replace(inserted, old, is, 1)
	}
	return map[string]string{
		"inserted": inserted,
		"removed":  record(7, "REMOVE", "user", `"OldImage":`+image("user", 7)+`,`),
		"removed with hours": record(7, "REMOVE", "user", `"OldImage":`+strings.Replace(image("user", 7), `"rf"`,
			`"dh":{"N":"490000"},"dc":{"N":"489999"},"dp_":{"N":"3"},"dn":{"N":"4"},"dt":{"S":"[,rpm]ahz0:1,1;"},"rf"`, 1)+`,`),
		"removed by the sweep": strings.TrimSuffix(record(7, "REMOVE", "user", `"OldImage":`+image("user", 7)+`,`), "}") + `,"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}}`,
		"an expired event": `{"eventID":"e","eventName":"REMOVE","dynamodb":{"Keys":{"PK":{"S":"ns/AUDIT#a"},"SK":{"S":"#AUDIT#1"}},` +
			`"OldImage":{"details":{"M":{"l":{"L":[{"S":"}\"]"},{"BOOL":true}]}}}},"SequenceNumber":"8"},"userIdentity":{"PrincipalId":"dynamodb.amazonaws.com","Type":"Service"}}`,
		"usage": instead(`"SK":{"S":"#STATE"},"PK"`, `"SK":{"S":"#USAGE#gpt-4#daily#x"},"PK"`),
		"usage of the peer": `{"eventID":"e","eventName":"MODIFY","dynamodb":{"Keys":{"PK":{"S":"ns/ENTITY#a"},"SK":{"S":"#USAGE#gpt-4#2026-01-01T00:00:00Z"}},` +
			`"NewImage":{"rpm":{"N":"2"}},"OldImage":{"rpm":{"N":"1"}},"SequenceNumber":"8"}}`,
		"a limit that the peer removed": record(7, "MODIFY", "user", `"NewImage":`+
			strings.Replace(strings.ReplaceAll(image("user", 8), `"b_rpm_`, `"b_rpm.was_`), `"rf"`, `"dh":{"N":"490000"},"do_rpm":{"N":"3"},"rf"`, 1)+`,"OldImage":`+image("user", 7)+`,`),
		"without an image":   record(7, "MODIFY", "user", ""),
		"empty images":       record(7, "MODIFY", "user", `"NewImage":{},"OldImage":{},`),
		"another event":      instead("INSERT", "RESTORE"),
		"a bad number":       instead(`"rf":{"N":"1700000000000"}`, `"rf":{"N":"1.5"}`),
		"no number":          instead(`"rf":{"N":"1700000000000"}`, `"rf":{"S":"1700000000000"}`),
		"no stamp":           instead(`"rf":{"N":"1700000000000"},`, ``),
		"escapes":            instead(`"org"`, `"\u006frg\"}"`),
		"an escaped name":    instead(`"parent_id"`, `"parent\u005fid"`),
		"other types":        instead(`"created"`, `"a":{"NULL":true},"b":{"L":[{"S":"}]"},{"M":{"x":{"N":"1"}}}]},"c":{"SS":["a","\"}"]},"d":{"B":"AA=="},"e":{"BOOL":true},"created"`),
		"a cascade":          instead(`"cascade":{"BOOL":false}`, `"cascade":{"BOOL":true},"disabled":{"NULL":true}`),
		"a fraction":         instead("1.7E9", "1700000000.25"),
		"an unknown member":  instead(`"awsRegion"`, `"another":{"a":["}"]},"awsRegion"`),
		"an unknown content": instead(`"SizeBytes"`, `"another":null,"SizeBytes"`),
		"no content":         `{"eventID":"e"}`,
		"no key":             `{"eventID":"e","eventName":"MODIFY","dynamodb":{"SequenceNumber":"8"}}`,
		"a key of numbers":   `{"eventID":"e","eventName":"MODIFY","dynamodb":{"Keys":{"PK":{"N":"1"},"SK":{"N":"2"}},"SequenceNumber":"8"}}`,
		"null":               `{"eventID":null,"eventName":"MODIFY","dynamodb":null}`,
		"spaces":             instead(`,"dynamodb"`, ` , "dynamodb"`),
	}
}

// sdkOf is a client of the SDK that gets an answer.
func sdkOf(status int, body string) *dynamodbstreams.Client {
	return dynamodbstreams.New(dynamodbstreams.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RetryMaxAttempts: 1, HTTPClient: canned{status, body},
	})
}

type canned struct {
	status int
	body   string
}

func (c canned) Do(*http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(c.status)
	_, err := io.WriteString(w, c.body)
	return w.Result(), err
}

// An outcome is what came of a request for a page.
type outcome struct {
	Records []stream.Record
	Size    int64
	Next    *string
	Failed  bool
}

// outcomes are those of the follower's way and of the SDK's alone.
func outcomes(ctx context.Context, status int, body string) (own, sdk outcome) {
	client, in := sdkOf(status, body), &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("i")}
	read := func(api stream.API) (o outcome) {
		var err error
		o.Records, o.Size, o.Next, err = stream.GetRecords(ctx, api, in)
		o.Failed = err != nil
		return o
	}
	return read(client), read(struct{ stream.API }{client})
}

// alike compares outcomes. Which of several damaged attributes an error names is chance.
var alike = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Comparer(func(a, b error) bool {
		before := func(err error) string { text, _, _ := strings.Cut(fmt.Sprint(err), ": attribute "); return text }
		return before(a) == before(b)
	}),
	cmp.Exporter(func(reflect.Type) bool { return true }),
}

// The follower reads the answers to the SDK's client as the SDK does.
func TestPagesAreReadAsByTheSDK(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"a page": pageOf(modified(1, "a"), modified(2, "b"), modified(3, "a")), "no records": pageOf(), "nothing": "", "an empty object": "{}",
		"the end": `{"Records":[` + modified(1, "a") + `]}`, "no next": `{"NextShardIterator":null,"Records":null}`,
		"cut": pageOf(modified(1, "a"))[:900], "more": pageOf(modified(1, "a")) + "x", "another member": `{"Records":[],"Another":1}`,
		"spaces": ` { "Records" : [ ` + modified(1, "a") + ` ] } `, "no list": `{"Records":{}}`, "no JSON": `<html>`, "a number": `{"Records":[1]}`,
	}
	var all []string
	for name, r := range oddities() {
		bodies["a record: "+name] = pageOf(modified(1, "a"), r, modified(2, "a"))
		all = append(all, r, modified(2, "a"))
	}
	bodies["all oddities"] = pageOf(all...)
	for name, body := range bodies {
		own, sdk := outcomes(t.Context(), http.StatusOK, body)
		if diff := cmp.Diff(sdk, own, alike); diff != "" {
			t.Errorf("%s (-SDK +own):\n%s", name, diff)
		}
	}
	own, sdk := outcomes(t.Context(), http.StatusBadRequest, `{"__type":"TrimmedDataAccessException"}`)
	if diff := cmp.Diff(sdk, own, alike); diff != "" || !own.Failed {
		t.Errorf("an error (-SDK +own):\n%s", diff)
	}
}

// Reading a record of a bucket through the SDK's client takes six allocations: each image
// and its limits, the ID and the sequence number. A page has more for the SDK's call, and for
// what its records share.
func TestAPageIsCheap(t *testing.T) {
	const records, buckets, call = 1000, 50, 500
	all := make([]string, records)
	for i := range all {
		all[i] = modified(i, fmt.Sprint("user", i%buckets))
	}
	client := sdkOf(http.StatusOK, pageOf(all...))
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: aws.String("i")}
	got := testing.AllocsPerRun(10, func() {
		if read, _, _, err := stream.GetRecords(t.Context(), client, in); err != nil || len(read) != records {
			t.Fatal(len(read), err)
		}
	})
	if got > 6*records+call {
		t.Errorf("%.0f allocations for %d records", got, records)
	}
	t.Logf("%.0f allocations for %d records", got, records)
}

// Records keep no part of the body, and share equal strings.
func TestRecordsDoNotKeepTheBody(t *testing.T) {
	t.Parallel()
	body := pageOf(modified(1, "a"), modified(2, "a"))
	read, plain := stream.ReadPage(body)
	if !plain {
		t.Fatal("the page is not plain")
	}
	place := func(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }
	kept := func(r *stream.Record) []string {
		n := r.New
		return []string{r.Key, r.Namespace, n.Entity, n.Resource, n.Parent, n.Writes.Name, n.Limits[0].Name, r.ID, r.Sequence}
	}
	shared := len(kept(&read[0])) - 2
	for i, s := range kept(&read[0]) {
		if s == "" || place(s)-place(body) < uintptr(len(body)) {
			t.Errorf("%q is a part of the body", s)
		}
		if other := kept(&read[1])[i]; i < shared && place(s) != place(other) {
			t.Errorf("%q is there twice", s)
		}
	}
}

// FuzzPage checks that what the SDK reads is read alike.
func FuzzPage(f *testing.F) {
	f.Add(pageOf(modified(1, "a"), modified(2, "a")))
	for _, r := range oddities() {
		f.Add(pageOf(r))
	}
	f.Fuzz(func(t *testing.T, body string) {
		own, sdk := outcomes(t.Context(), http.StatusOK, body)
		if sdk.Failed || !utf8.ValidString(body) || hasTwins(json.NewDecoder(strings.NewReader(body))) {
			return // DynamoDB sends JSON, and each member once
		}
		if diff := cmp.Diff(sdk, own, alike); diff != "" {
			t.Errorf("(-SDK +own):\n%s", diff)
		}
	})
}

// hasTwins reports whether a value is no JSON, or an object in it has a member twice.
func hasTwins(d *json.Decoder) bool {
	token, err := d.Token()
	if err != nil {
		return true
	}
	begin, _ := token.(json.Delim)
	if begin != '{' && begin != '[' {
		return false
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if begin == '{' {
			name, err := d.Token()
			if err != nil || seen[name] {
				return true
			}
			seen[name] = true
		}
		if hasTwins(d) {
			return true
		}
	}
	_, err = d.Token()
	return err != nil
}
