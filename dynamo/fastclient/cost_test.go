package fastclient_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/dynamo/fastclient"
	"github.com/zeroae/zae-limiter-go/dynamo/internal/conn"
	"github.com/zeroae/zae-limiter-go/internal/schema"
)

// parrot gives every request the same answer, without allocations.
func parrot(tb testing.TB, status int, body string) (endpoint string) {
	tb.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	answer := []byte(response(status, "", body))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				in := make([]byte, 64<<10) // a request comes in one write, and is smaller
				for {
					if _, err := conn.Read(in); err != nil {
						_ = conn.Close()
						return
					}
					_, _ = conn.Write(answer)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// bucket is the image of a bucket with two limits, about as the limiter has them.
const bucket = `{"Attributes":{"PK":{"S":"ns/BUCKET#entity#gpt-4#0"},"SK":{"S":"#STATE"},"b_rpm_tk":{"N":"59000"},"b_rpm_cp":{"N":"60000"},` +
	`"b_rpm_ra":{"N":"60000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"1000"},"b_tpm_tk":{"N":"9000000"},"b_tpm_cp":{"N":"9000000"},` +
	`"b_tpm_ra":{"N":"9000000"},"b_tpm_rp":{"N":"60000"},"b_tpm_tc":{"N":"1000"},"rf":{"N":"1764151200000"},"entity_id":{"S":"entity"},` +
	`"resource":{"S":"gpt-4"},"ttl":{"N":"1764752400"},"cascade":{"BOOL":false}}}`

func bucketWrite() *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName: aws.String(table), Key: schema.Key{PK: "ns/BUCKET#entity#gpt-4#0", SK: "#STATE"}.Item(),
		UpdateExpression:          aws.String("SET #A0=#A0-:a0,#A1=#A1-:a1 ADD #E0 :a0"),
		ConditionExpression:       aws.String("#A0 >= :a0 AND #A1 >= :a1 AND attribute_exists(PK)"),
		ExpressionAttributeNames:  map[string]string{"#A0": "b_rpm_tk", "#A1": "b_tpm_tk", "#E0": "b_rpm_tc"},
		ExpressionAttributeValues: schema.Item{":a0": schema.N(1000), ":a1": schema.N(4000)},
		ReturnValues:              types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// A call makes few allocations, beside those for its input.
func TestClientAllocates(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	batch := `{"Responses":{"limits":[` + strings.TrimSuffix(strings.TrimPrefix(bucket, `{"Attributes":`), "}") + `]},"UnprocessedKeys":{}}`
	in := bucketWrite()
	get := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: {Keys: []schema.Item{in.Key}}}}
	update := func(api dynamo.API) error { _, err := api.UpdateItem(t.Context(), in, conn.BucketWrite); return err }
	refusal := strings.Replace(bucket, `{"Attributes":`, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"no","Item":`, 1)
	for name, c := range map[string]struct {
		status int
		body   string
		call   func(dynamo.API) error
		budget float64 // the race detector drops pooled objects and adds some; the SDK makes 410
	}{
		"UpdateItem":   {http.StatusOK, bucket, update, 25},
		"BatchGetItem": {http.StatusOK, batch, func(api dynamo.API) error { _, err := api.BatchGetItem(t.Context(), get, once); return err }, 30},
		"a refusal":    {http.StatusBadRequest, refusal, update, 60},
	} {
		api := fastclient.New(clientConfig(parrot(t, c.status, c.body)))
		n := testing.AllocsPerRun(100, func() {
			if err := c.call(api); (err != nil) != (c.status != http.StatusOK) {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %v", name, n)
		if n > c.budget {
			t.Errorf("%s makes %v allocations, want at most %v", name, n, c.budget)
		}
	}
}
