package differential_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DynamoDB Local does not support tags, so the cases on them contain the answers of AWS.

// tagStep is a request about tags, and AWS's answer.
type tagStep struct {
	request any
	want    string
}

const (
	tagsDone = `{}`
	tagsGone = `{"error":"ResourceNotFoundException"}`
)

func tags(pairs ...string) []types.Tag {
	list := []types.Tag{}
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return list
}

func tag(want string, pairs ...string) tagStep {
	return tagStep{tagged{"Made", "", &dynamodb.TagResourceInput{Tags: tags(pairs...)}}, want}
}

func untag(want string, keys ...string) tagStep {
	return tagStep{tagged{"Made", "", &dynamodb.UntagResourceInput{TagKeys: append([]string{}, keys...)}}, want}
}

// listTags expects these tags, with their keys in alphabetical order.
func listTags(pairs ...string) tagStep {
	want := struct{ Tags []map[string]string }{}
	for i := 0; i < len(pairs); i += 2 {
		want.Tags = append(want.Tags, map[string]string{"Key": pairs[i]})
		if pairs[i+1] != "" {
			want.Tags[i/2]["Value"] = pairs[i+1]
		}
	}
	text := tagsDone
	if len(pairs) > 0 {
		encoded, err := json.Marshal(want)
		if err != nil {
			panic(err) // it consists of strings
		}
		text = string(encoded)
	}
	return tagStep{tagged{"Made", "", &dynamodb.ListTagsOfResourceInput{}}, text}
}

// tagsOn sends every tag request for an ARN that AWS refuses.
func tagsOn(want string, on func(any) any) []tagStep {
	return []tagStep{
		{on(&dynamodb.TagResourceInput{Tags: tags("a", "1")}), want},
		{on(&dynamodb.UntagResourceInput{TagKeys: []string{"a"}}), want},
		{on(&dynamodb.ListTagsOfResourceInput{}), want},
	}
}

// tagsAt returns a function that gives a request an ARN like that of the table that cases make.
func tagsAt(as string) func(any) any {
	return func(in any) any { return tagged{"Made", as, in} }
}

// plainARN returns a function that gives a request this full ARN.
func plainARN(arn string) func(any) any {
	return func(request any) any {
		switch in := request.(type) {
		case *dynamodb.TagResourceInput:
			in.ResourceArn = &arn
		case *dynamodb.UntagResourceInput:
			in.ResourceArn = &arn
		case *dynamodb.ListTagsOfResourceInput:
			in.ResourceArn = &arn
		}
		return request
	}
}

// manyTags returns n pairs.
func manyTags(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("key%02d", i), strconv.Itoa(i))
	}
	return all
}

// tagTable returns all cases on the tags of an existing table.
func tagTable() map[string][]tagStep {
	fifty := manyTags(50)
	return map[string][]tagStep{
		"none":                          {listTags()},
		"two":                           {tag(tagsDone, "a", "1", "b", "2"), listTags("a", "1", "b", "2")},
		"added":                         {tag(tagsDone, "a", "1"), tag(tagsDone, "b", "2"), listTags("a", "1", "b", "2")},
		"changed":                       {tag(tagsDone, "a", "1"), tag(tagsDone, "a", "2", "b", ""), listTags("a", "2", "b", "")},
		"removed":                       {tag(tagsDone, "a", "1", "b", "2", "c", "3"), untag(tagsDone, "a", "c", "none"), listTags("b", "2")},
		"none removed":                  {untag(tagsDone, "none"), listTags()},
		"no keys removed":               {untag(invalidRequest), listTags()},
		"no tags added":                 {tag(invalidRequest), listTags()},
		"key twice":                     {tag(invalidRequest, "a", "1", "a", "2"), listTags()},
		"one bad, none added":           {tag(invalidRequest, "a", "1", "b!", "2"), listTags()},
		"empty key":                     {tag(invalidRequest, "", "1"), listTags()},
		"empty value":                   {tag(tagsDone, "a", ""), listTags("a", "")},
		"longest key and value":         {tag(tagsDone, strings.Repeat("k", 128), strings.Repeat("v", 256)), listTags(strings.Repeat("k", 128), strings.Repeat("v", 256))},
		"longest key of wide letters":   {tag(tagsDone, strings.Repeat("é", 128), "v"), listTags(strings.Repeat("é", 128), "v")},
		"too long a key":                {tag(invalidRequest, strings.Repeat("k", 129), "v"), listTags()},
		"too long a value":              {tag(invalidRequest, "a", strings.Repeat("v", 257)), listTags()},
		"aws: key":                      {tag(invalidRequest, "aws:a", "1"), tag(invalidRequest, "AWS:a", "1"), untag(invalidRequest, "aws:a"), listTags()},
		"aws: elsewhere":                {tag(tagsDone, "a", "aws:1", "myaws:a", "1"), listTags("a", "aws:1", "myaws:a", "1")},
		"allowed characters":            {tag(tagsDone, "é ключ 表", "a+b-c=d.e_f:g/h@i"), listTags("é ключ 表", "a+b-c=d.e_f:g/h@i")},
		"forbidden characters in a key": {tag(invalidRequest, "a,b", "1"), tag(invalidRequest, "a~", "1"), tag(invalidRequest, "🔑", "1"), listTags()},
		"forbidden characters in value": {tag(invalidRequest, "a", "100%"), tag(invalidRequest, "a", "a&b"), tag(invalidRequest, "a", "(x)"), listTags()},
		"fifty":                         {tag(tagsDone, fifty...), listTags(fifty...)},
		"fifty-one":                     {tag(invalidRequest, manyTags(51)...), listTags()},
		"fifty and one": {
			tag(tagsDone, fifty...), tag(invalidRequest, "another", "1"), tag(invalidRequest, "another", "1", "key00", "0"), tag(tagsDone, "key00", "0"), listTags(fifty...),
		},
		"of a missing table":             tagsOn(tagsGone, tagsAt("table/Nowhere")),
		"of an index":                    tagsOn(invalidRequest, tagsAt("table/Made/index/One")),
		"of another kind of resource":    tagsOn(invalidRequest, tagsAt("backup/Made")),
		"of what is no ARN":              tagsOn(invalidRequest, plainARN("nothing")),
		"of a table's name":              tagsOn(invalidRequest, plainARN("Made")),
		"of a resource of other service": tagsOn(invalidRequest, plainARN("arn:aws:s3:::Made")),
	}
}

// newTags are tags in the request that creates a table. A listing follows or, if the table is
// refused, a listing and a search for the table.
type newTags struct {
	pairs []string
	steps []tagStep
}

func newTagTable() map[string]newTags {
	gone := tagStep{&dynamodb.DescribeTableInput{TableName: new("Made")}, tagsGone}
	return map[string]newTags{
		"two":       {[]string{"a", "1", "b", "2"}, []tagStep{listTags("a", "1", "b", "2")}},
		"none":      {nil, []tagStep{listTags()}},
		"key twice": {[]string{"a", "1", "a", "2"}, []tagStep{{nil, invalidRequest}, gone}},
		"fifty-one": {manyTags(51), []tagStep{{nil, invalidRequest}, gone}},
		"aws: key":  {[]string{"aws:a", "1"}, []tagStep{{nil, invalidRequest}, gone}},
	}
}

// tagCases returns the cases of both tables.
func tagCases() []testCase {
	var all []testCase
	for _, name := range slices.Sorted(maps.Keys(tagTable())) {
		requests := []any{table("Made", "pk:S")}
		for _, step := range tagTable()[name] {
			requests = append(requests, step.request)
		}
		all = append(all, testCase{"settings/tags " + name, nil, requests})
	}
	for _, name := range slices.Sorted(maps.Keys(newTagTable())) {
		c := newTagTable()[name]
		requests := []any{tweak(table("Made", "pk:S"), func(in *dynamodb.CreateTableInput) { in.Tags = tags(c.pairs...) })}
		for _, step := range c.steps {
			if step.request != nil {
				requests = append(requests, step.request)
			}
		}
		all = append(all, testCase{"settings/tags of a new table, " + name, nil, requests})
	}
	return append(all, testCase{"settings/tags after the table is made again", nil, []any{
		table("Made", "pk:S"), tag("", "a", "1").request, &dynamodb.DeleteTableInput{TableName: new("Made")}, table("Made", "pk:S"), listTags().request,
	}})
}

// tagAnswers returns AWS's answers to them.
func tagAnswers() map[string]edits {
	all := map[string]edits{"settings/tags after the table is made again": {"1": tagsDone, "4": tagsDone}}
	for name, steps := range tagTable() {
		answers := edits{}
		for i, step := range steps {
			answers[strconv.Itoa(i+1)] = step.want
		}
		all["settings/tags "+name] = answers
	}
	for name, c := range newTagTable() {
		answers := edits{}
		for i, step := range c.steps {
			if c.steps[0].request != nil {
				i++ // the table is created, and DynamoDB Local reports it too
			}
			answers[strconv.Itoa(i)] = step.want
		}
		all["settings/tags of a new table, "+name] = answers
	}
	return all
}
