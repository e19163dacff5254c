package benchmarks_test

import (
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// engineClient is newClient with connections for that many concurrent callers.
func engineClient(endpoint string, callers int) *dynamodb.Client {
	httpClient := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = callers })
	return dynamodb.New(dynamodb.Options{
		HTTPClient: keeper{httpClient},
		Region:     "us-east-1", BaseEndpoint: &endpoint,
		Credentials: aws.NewCredentialsCache(credentials.NewStaticCredentialsProvider("local", "local", "")),
	})
}

// TestEngineUpdate measures an update of an item of 25 attributes, by one caller on one
// core, in process and on DynamoDB Local. DynamoDB Local and its client may use all cores.
//
// Not parallel: other work would be measured too.
func TestEngineUpdate(t *testing.T) {
	const keys = 1_000
	const mostAllocations = 40
	ctx := t.Context()
	db := dynamolite.New(dynamolite.Options{})
	defer db.Close()
	if err := fill(ctx, db, wide, keys, false); err != nil {
		t.Fatal(err)
	}
	work := func(api items) func() (burst, error) {
		return func() (burst, error) {
			return drive(1, *sliceTime, func(random *rand.Rand) error {
				_, err := api.UpdateItem(ctx, wideUpdate(random.IntN(keys)))
				return err
			})
		}
	}
	inProcess := &side{name: "in process", work: func() (burst, error) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		return work(db)()
	}}
	sides := []*side{inProcess}
	var local *side
	if endpoint := localEndpoint(t); endpoint != "" {
		client := engineClient(endpoint, 1)
		if err := fill(ctx, client, wide, keys, false); err != nil {
			t.Fatal(err)
		}
		local = &side{name: "DynamoDB Local", work: work(client)}
		alternate(t, local) // until Java has compiled the hot code
		local.bursts = nil
		sides = append(sides, local)
	}
	alternate(t, sides...)

	s := newSheet("UpdateItem, 25 attributes", "updates/s", "p50", "p99", "to in process", "target")
	for _, side := range sides {
		row := []string{side.name, perSecond(side.median(burst.rate)), latency(side.median(burst.p50)), latency(side.median(burst.p99)), "", ""}
		if side == local {
			row[4] = local.to(inProcess, burst.cost).String()
			row[5] = "≥ 50 " + string(hold(t, "the time of 50 updates in process, to one of DynamoDB Local", inProcess.to(local, burst.cost).times(50), 1))
		}
		s.row(row...)
	}
	s.print(t, inSlices())

	in := wideUpdate(0)
	n := testing.AllocsPerRun(1_000, func() {
		if _, err := db.UpdateItem(ctx, in); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v allocations per update, at most %d", n, mostAllocations)
	if n > mostAllocations {
		t.Errorf("an update makes %v allocations, want at most %d", n, mostAllocations)
	}
}
