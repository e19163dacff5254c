package template_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/template"
)

// stack has parameters, conditions, and a queue with attributes.
const stack = `
Parameters:
  Size: {Type: Number, Default: 3}
  Zones: {Type: CommaDelimitedList, Default: 'a, b'}
  Name: {Type: String, Default: ''}
Conditions:
  Named: !Not [!Equals [!Ref Name, '']]
  Small: !Equals [!Ref Size, 3]
  Both: !And [!Condition Named, !Condition Small]
  Any: !Or [!Condition Named, Fn::Equals: [x, y]]
  Two: !Equals [!Join ['', !Ref Zones], ab]
  Itself: !Not [!Condition Itself]
Resources:
  Queue: {Type: AWS::SQS::Queue, DeletionPolicy: RetainExceptOnCreate}
  Bucket: {Type: AWS::S3::Bucket, Condition: Named, DependsOn: Queue, Properties: {VALUE}}
`

// in parses the template with a value as that of the property Is of its bucket.
func in(t *testing.T, value string, parameters map[string]string) *template.Scope {
	t.Helper()
	parsed, err := template.Parse(strings.Replace(stack, "VALUE", "Is: "+value, 1))
	if err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	return &template.Scope{Template: parsed, Name: "limits", Account: "1234", Region: "eu", Values: parameters, Resource: func(id, attribute string) (string, error) {
		if id != "Queue" {
			return "", errors.New("no " + id)
		}
		return "limits-queue" + attribute, nil
	}}
}

// The values are those that the reference of CloudFormation's functions gives.
func TestFunctionsAreEvaluated(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]any{
		"text": "text", "true": "true", "[1, !Ref AWS::NoValue, 2]": []any{"1", "2"},
		"{A: !Ref AWS::NoValue, B: !Ref Size}": map[string]any{"B": "5"},
		"{Ref: Size}":                          "5", "!Ref AWS::StackName": "limits", "!Ref Zones": []any{"a", "b"}, "!Ref Queue": "limits-queue",
		"!GetAtt Queue.Arn": "limits-queueArn", "{Fn::GetAtt: [Queue, Arn]}": "limits-queueArn",
		"!Sub '${AWS::Region}/${Queue}/${Queue.Arn}/${!Literal}/${Size}'": "eu/limits-queue/limits-queueArn/${Literal}/5",
		"!Sub ['${Mine}-${Size}', {Mine: !Ref AWS::AccountId}]":           "1234-5",
		"!If [Named, yes, !Ref Nothing]":                                  "yes", "!If [Small, yes, no]": "no", "!If [Both, yes, no]": "no", "!If [Any, yes, no]": "yes",
		"!If [Two, yes, no]": "yes", "!Select [1, !Split ['-', a-b-c]]": "b", "!Join [':', [a, !Ref Size]]": "a:5",
	} {
		s := in(t, value, map[string]string{"Size": "5", "Name": "mine"})
		got := s.Eval(s.Resources[1].Properties).(map[string]any)["Is"]
		if diff := cmp.Diff(want, got); diff != "" || s.Err() != nil {
			t.Errorf("%s: error %v (-want +got):\n%s", value, s.Err(), diff)
		}
	}
}

func TestWhatCannotBeEvaluatedIsSaid(t *testing.T) {
	t.Parallel()
	for value, says := range map[string]string{
		"!ImportValue other": "Fn::ImportValue", "!Ref Nothing": "no Nothing", "!If [Missing, a, b]": "no condition Missing", "!If [Itself, a, b]": "Itself",
		"!Select [7, !Ref Zones]": "Fn::Select", "!Sub '${Zones}'": "is no text", "!FindInMap [a, b, c]": "Fn::FindInMap",
	} {
		s := in(t, value, nil)
		s.Eval(s.Resources[1].Properties)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, text := range []string{"a: [", "- list", "text"} {
		if _, err := template.Parse(text); err == nil {
			t.Errorf("%q is a template", text)
		}
	}
}

// A stack in review has no template yet.
func TestAnEmptyTemplateHasNothing(t *testing.T) {
	t.Parallel()
	if parsed, err := template.Parse(""); err != nil || len(parsed.Resources)+len(parsed.Section("Outputs")) > 0 {
		t.Errorf("%+v, %v", parsed, err)
	}
}

func TestResourcesAreInTheOrderOfTheText(t *testing.T) {
	t.Parallel()
	s := in(t, "1", nil)
	var got []string
	for _, r := range s.Resources {
		got = append(got, r.ID+" "+r.Type+" "+r.Condition+strings.Join(r.DependsOn, ","))
	}
	if diff := cmp.Diff([]string{"Queue AWS::SQS::Queue ", "Bucket AWS::S3::Bucket NamedQueue"}, got); diff != "" || !s.Resources[0].Retained() || s.Resources[1].Retained() {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if s.Holds("Named") || !s.Holds("") || s.Err() != nil {
		t.Errorf("conditions: %v", s.Err())
	}
}
