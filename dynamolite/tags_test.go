package dynamolite_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// tagsOf makes tags from alternating keys and values.
func tagsOf(pairs ...string) (tags []types.Tag) {
	for i := 0; i < len(pairs); i += 2 {
		tags = append(tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return tags
}

func TestLimitsAndEndpoints(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	limits, err := db.DescribeLimits(t.Context(), nil)
	if err != nil || *limits.AccountMaxReadCapacityUnits != 80_000 || *limits.AccountMaxWriteCapacityUnits != 80_000 ||
		*limits.TableMaxReadCapacityUnits != 40_000 || *limits.TableMaxWriteCapacityUnits != 40_000 {
		t.Errorf("limits: %v, %v", limits, err)
	}
	endpoints, err := db.DescribeEndpoints(t.Context(), nil)
	if err != nil || len(endpoints.Endpoints) != 1 || *endpoints.Endpoints[0].Address == "" || endpoints.Endpoints[0].CachePeriodInMinutes != 1440 {
		t.Errorf("endpoints: %v, %v", endpoints, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, errLimits := db.DescribeLimits(t.Context(), nil)
	_, errEndpoints := db.DescribeEndpoints(t.Context(), nil)
	for _, err := range []error{errLimits, errEndpoints} {
		if !errors.Is(err, dynamolite.ErrClosed) {
			t.Errorf("a closed database answers %v", err)
		}
	}
}
