package dynamolite_test

import (
	"errors"
	"fmt"
	"strconv"
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

func numberedTags(n int) (pairs []string) {
	for i := range n {
		pairs = append(pairs, fmt.Sprintf("key%02d", i), strconv.Itoa(i))
	}
	return pairs
}

func TestTags(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 128)
	for _, tt := range []struct {
		name    string
		tags    []types.Tag // of a table that has a=1 and b=2
		keys    []string    // to be removed after that
		mention string      // "" if all is valid
		want    []string
	}{
		{"added", tagsOf("c", "3"), nil, "", []string{"a=1", "b=2", "c=3"}},
		{"changed", tagsOf("b", ""), nil, "", []string{"a=1", "b="}},
		{"removed", nil, []string{"a", "none", "a"}, "", []string{"b=2"}},
		{"characters", tagsOf("aAzZ09 +-=._:/@é世", "\u00a0ключ"), nil, "", []string{"a=1", "aAzZ09 +-=._:/@é世=\u00a0ключ", "b=2"}},
		{"longest", tagsOf(long, long+long), nil, "", []string{"a=1", "b=2", long + "=" + long + long}},
		{"as many as there can be", tagsOf(numberedTags(48)...), nil, "", nil},
		{"one more", tagsOf(numberedTags(49)...), nil, "Number of Tags", nil},
		{"one more than ever", tagsOf(numberedTags(51)...), nil, "Number of Tags", nil},
		{"none", []types.Tag{}, nil, "At least one Tag", nil},
		{"key too long", tagsOf("c", "3", long+"x", "v"), nil, "Tag Key", nil},
		{"value too long", tagsOf("k", long+long+"x"), nil, "Tag Value", nil},
		{"no key", []types.Tag{{Value: ptr("v")}}, nil, "Key", nil},
		{"no value", []types.Tag{{Key: ptr("k")}}, nil, "Value", nil},
		{"empty key", tagsOf("", "v"), nil, "Tag Key", nil},
		{"twice", tagsOf("k", "1", "k", "2"), nil, "Duplicate", nil},
		{"reserved", tagsOf("aws:k", "1"), nil, "aws:", nil},
		{"reserved in capitals", tagsOf("AwS:k", "1"), nil, "aws:", nil},
		{"not reserved", tagsOf("myaws:k", "aws:1"), nil, "", []string{"a=1", "b=2", "myaws:k=aws:1"}},
		{"character of a key", tagsOf("k,", "1"), nil, "Tag Key", nil},
		{"character of a value", tagsOf("k", "100%"), nil, "Tag Value", nil},
		{"not text", tagsOf("k", "\xff"), nil, "Tag Value", nil},
		{"no keys", nil, []string{}, "At least one Tag Key", nil},
		{"reserved key removed", nil, []string{"a", "aws:b"}, "aws:", nil},
		{"too many removed", nil, strings.Split(strings.Repeat("x,", 50)+"x", ","), "Number of Tags", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := dynamolite.New(dynamolite.Options{})
			in := otherInput()
			in.Tags = tagsOf("a", "1", "b", "2")
			table, err := db.CreateTable(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			arn := table.TableDescription.TableArn
			if tt.tags != nil {
				_, err = db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arn, Tags: tt.tags})
			}
			if tt.keys != nil {
				_, err = db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: tt.keys})
			}
			want := tt.want
			switch {
			case tt.mention != "":
				wantInvalid(t, err, tt.mention)
				want = []string{"a=1", "b=2"} // all or nothing
			case err != nil:
				t.Fatal(err)
			case want == nil:
				want = append(want, "a=1", "b=2")
				for i := range 48 {
					want = append(want, fmt.Sprintf("key%02d=%d", i, i))
				}
			}
			out, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
			if err != nil || out.NextToken != nil {
				t.Fatalf("list: %v, next %v", err, out)
			}
			var got []string
			for _, tag := range out.Tags {
				got = append(got, *tag.Key+"="+*tag.Value)
			}
			mustEqual(t, "tags", want, got)
		})
	}
}

func TestCreateTableTags(t *testing.T) {
	t.Parallel()
	db := dynamolite.New(dynamolite.Options{})
	in := otherInput()
	in.Tags = tagsOf("aws:a", "1")
	_, err := db.CreateTable(t.Context(), in)
	wantInvalid(t, err, "aws:")
	in.Tags = []types.Tag{}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Errorf("the refused table is there, or no tags are refused: %v", err)
	}
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
