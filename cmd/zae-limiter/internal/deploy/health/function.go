package health

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/stack"
	"github.com/zeroae/zae-limiter-go/store"
)

// functions reads the aggregator and the provisioner.
func (r *reader) functions(ctx context.Context, report *Report) {
	if name := r.o.Site.Aggregator; name != "" {
		report.Aggregator = r.function(ctx, name)
		read(ctx, r, &report.Aggregator.Mapping, "lambda:ListEventSourceMappings", func(ctx context.Context) (Mapping, error) {
			return r.mapping(ctx, name)
		})
		read(ctx, r, &report.Aggregator.Activity, "cloudwatch:GetMetricData", func(ctx context.Context) (Activity, error) {
			return r.activity(ctx, name, r.o.TableName)
		})
	}
	if name := r.o.Site.Provisioner; name != "" {
		report.Provisioner = r.function(ctx, name)
		read(ctx, r, &report.Provisioner.Activity, "cloudwatch:GetMetricData", func(ctx context.Context) (Activity, error) {
			return r.activity(ctx, name, "")
		})
	}
}

// function reads what all functions have. The log follows the code, which names its group.
func (r *reader) function(ctx context.Context, name string) *Function {
	f := &Function{Name: name}
	r.wg.Go(func() {
		f.Code = r.within(ctx, func(ctx context.Context) Part[Code] { return r.code(ctx, name) })
		group := "/aws/lambda/" + name
		if f.Code.Value != nil {
			group = f.Code.Value.LogGroup
		}
		r.wg.Go(func() { f.LastError = r.lastError(ctx, group) })
	})
	return f
}

// within bounds the time of one read.
func (r *reader) within(ctx context.Context, of func(context.Context) Part[Code]) Part[Code] {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	return of(ctx)
}

func (r *reader) code(ctx context.Context, name string) Part[Code] {
	out, err := r.o.Clients.Functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return Failed[Code]("lambda:GetFunctionConfiguration", err)
	}
	has := stack.FunctionOf(out)
	c := Code{
		Has: has, Runtime: has.Runtime, Architecture: has.Architecture, MemoryMB: has.MemoryMB, TimeoutS: has.TimeoutS,
		SHA256: aws.ToString(out.CodeSha256), State: string(out.State), Update: string(out.LastUpdateStatus),
		Reason: oneLine(cmp.Or(aws.ToString(out.StateReason), aws.ToString(out.LastUpdateStatusReason))), LogGroup: "/aws/lambda/" + name,
	}
	if out.LoggingConfig != nil && out.LoggingConfig.LogGroup != nil {
		c.LogGroup = *out.LoggingConfig.LogGroup
	}
	const lambdaTime = "2006-01-02T15:04:05.999-0700"
	if at, err := time.Parse(lambdaTime, aws.ToString(out.LastModified)); err == nil {
		c.Modified = at.UTC()
	}
	return Read(c)
}

// mapping finds the mapping of a table's stream to a function. Of several, it returns the
// mapping in the worst state.
func (r *reader) mapping(ctx context.Context, function string) (Mapping, error) {
	var found []types.EventSourceMappingConfiguration
	in := &lambda.ListEventSourceMappingsInput{FunctionName: &function}
	for pages := lambda.NewListEventSourceMappingsPaginator(r.o.Clients.Functions, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return Mapping{}, err
		}
		for i := range page.EventSourceMappings {
			if strings.Contains(aws.ToString(page.EventSourceMappings[i].EventSourceArn), ":dynamodb:") {
				found = append(found, page.EventSourceMappings[i])
			}
		}
	}
	if len(found) == 0 {
		return Mapping{}, &store.NotFoundError{Kind: "event source mapping", Name: function, Hint: "no stream calls the function: deploy the stack again"}
	}
	worst := slices.MinFunc(found, func(a, b types.EventSourceMappingConfiguration) int {
		return cmp.Or(cmp.Compare(order(&a), order(&b)), cmp.Compare(aws.ToString(a.UUID), aws.ToString(b.UUID)))
	})
	return Mapping{
		ID: aws.ToString(worst.UUID), State: aws.ToString(worst.State),
		Result: aws.ToString(worst.LastProcessingResult), Reason: oneLine(aws.ToString(worst.StateTransitionReason)),
	}, nil
}

// order is lower for a mapping that works less.
func order(m *types.EventSourceMappingConfiguration) int {
	switch {
	case aws.ToString(m.State) != mappingEnabled:
		return 0
	case strings.HasPrefix(aws.ToString(m.LastProcessingResult), mappingProblem):
		return 1
	}
	return 2
}

// What Lambda says of mappings.
const (
	mappingEnabled = "Enabled"
	mappingProblem = "PROBLEM" // begins the result of a failed call
)

// oneLine makes a foreign text safe to print: one line, without control characters, and not
// too long.
func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == ' ' }), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
