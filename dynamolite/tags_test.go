package dynamolite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/zeroae/zae-limiter-go/dynamolite"
)

// tagsOf makes tags from alternating keys and values.
func tagsOf(pairs ...string) (tags []types.Tag) {
	for i := 0; i < len(pairs); i += 2 {
		tags = append(tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return tags
}

func TestResourceNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	arn := *describeMain(t, f.db).TableArn
	calls := map[string]func(*string) error{
		"tag": func(arn *string) error {
			_, err := f.db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arn, Tags: tagsOf("a", "1")})
			return err
		},
		"untag": func(arn *string) error {
			_, err := f.db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a"}})
			return err
		},
		"list": func(arn *string) error {
			_, err := f.db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
			return err
		},
	}
	for name, call := range calls {
		for _, bad := range []string{
			"", mainTable, "arn", "arn:aws:s3:::main", strings.Replace(arn, ":dynamodb:", ":s3:", 1), arn + "/index/" + fullIndex, arn + "/",
			strings.Replace(arn, "table/", "backup/", 1), strings.TrimSuffix(arn, mainTable), strings.TrimSuffix(arn, mainTable) + "ab",
		} {
			if err := call(&bad); err == nil {
				t.Errorf("%s accepts %q", name, bad)
			} else {
				wantInvalid(t, err, "")
			}
		}
		wantInvalid(t, call(nil), "ResourceArn")
		if _, ok := errors.AsType[*types.ResourceNotFoundException](call(ptr(arn + "s"))); !ok {
			t.Errorf("%s of a table that is not there: %v", name, call(ptr(arn+"s")))
		}
		for _, foreign := range []string{strings.Replace(arn, "dynamolite", "us-east-1", 1), strings.Replace(arn, "000000000000", "123456789012", 1)} {
			err, ok := errors.AsType[smithy.APIError](call(ptr(foreign + "s")))
			if !ok || err.ErrorCode() != "AccessDeniedException" || !strings.Contains(err.ErrorMessage(), foreign+"s") {
				t.Errorf("%s of a table that is not there, %s: %v", name, foreign, err)
			}
		}
		if err := call(ptr(strings.Replace(arn, "dynamolite", "us-east-1", 1))); err != nil {
			t.Errorf("%s by an ARN of another region: %v", name, err)
		}
		if err := call(&arn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := f.db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn, NextToken: ptr("x")})
	wantInvalid(t, err, "NextToken")
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
