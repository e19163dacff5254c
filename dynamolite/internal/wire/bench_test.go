package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/wire"
)

// benchItem returns an item of 25 attributes; benchUpdate changes six of them under a condition
// of ten terms.
func benchItem() map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{}
	for i := range 12 {
		item[fmt.Sprintf("b_l%d_tk", i)] = &types.AttributeValueMemberN{Value: "900000000000000000"}
		item[fmt.Sprintf("GSI%dPK", i)] = &types.AttributeValueMemberS{Value: "0123456789/RESOURCE#gpt-4"}
	}
	item["PK"] = &types.AttributeValueMemberS{Value: "0123456789/ENTITY#user-1"}
	return item
}

func benchUpdate() *dynamodb.UpdateItemInput {
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String("bench"), ReturnValues: types.ReturnValueAllNew,
		Key: map[string]types.AttributeValue{
			"PK": &types.AttributeValueMemberS{Value: "0123456789/ENTITY#user-1"}, "SK": &types.AttributeValueMemberS{Value: "#BUCKET#gpt-4#0"},
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		ExpressionAttributeNames:            map[string]string{"#rf": "rf", "#pk": "PK"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":minus": &types.AttributeValueMemberN{Value: "-1"}, ":one": &types.AttributeValueMemberN{Value: "1"},
			":rf": &types.AttributeValueMemberN{Value: "1800000000000"}, ":n": &types.AttributeValueMemberN{Value: "2"},
		},
	}
	var adds, terms []string
	for i := range 3 {
		for _, f := range []string{"t", "c", "m"} {
			in.ExpressionAttributeNames[fmt.Sprintf("#%s%d", f, i)] = fmt.Sprintf("b_l%d_%s", i, f)
		}
		adds = append(adds, fmt.Sprintf("#t%d :minus, #c%d :one", i, i))
		terms = append(terms, fmt.Sprintf("#t%d >= :one AND #m%d > :n", i, i))
	}
	in.UpdateExpression = aws.String("ADD " + strings.Join(adds, ", "))
	in.ConditionExpression = aws.String(strings.Join(terms, " AND ") + " AND attribute_exists(#pk) AND #rf <= :rf")
	return in
}

func BenchmarkUpdateItem(b *testing.B) {
	body := encoded(b, benchUpdate())
	out := &dynamodb.UpdateItemOutput{Attributes: benchItem()}
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in dynamodb.UpdateItemInput
			if err := wire.Decode(body, &in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		var e wire.Encoder
		b.ReportAllocs()
		for b.Loop() {
			e.Reset()
			out.Serialize(&e)
		}
	})
}

func BenchmarkPutItemDecode(b *testing.B) {
	body := encoded(b, &dynamodb.PutItemInput{TableName: aws.String("bench"), Item: benchItem()})
	b.ReportAllocs()
	for b.Loop() {
		var in dynamodb.PutItemInput
		if err := wire.Decode(body, &in); err != nil {
			b.Fatal(err)
		}
	}
}

// Allocations are the part of the cost that does not depend on the machine. Not parallel: the
// allocations of other tests would be counted.
func TestAllocationBudget(t *testing.T) {
	body := encoded(t, benchUpdate())
	if got := testing.AllocsPerRun(100, func() {
		var in dynamodb.UpdateItemInput
		if err := wire.Decode(body, &in); err != nil {
			t.Error(err)
		}
	}); got > 65 {
		t.Errorf("an UpdateItem is decoded with %v allocations, more than 65", got)
	}
	out := &dynamodb.UpdateItemOutput{Attributes: benchItem()}
	var e wire.Encoder
	if got := testing.AllocsPerRun(100, func() {
		e.Reset()
		out.Serialize(&e)
	}); got > 0 {
		t.Errorf("an item is encoded with %v allocations, more than none", got)
	}
}
