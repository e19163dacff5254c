package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// Code is what the functions of a stack run.
type Code struct {
	// Bucket has the code; "" is the bucket that the stack makes.
	Bucket string
	Key    string // in the bucket; it contains a hash of Zip
	Zip    []byte
}

// upload puts the code into a bucket, unless it is already there. The key contains a hash,
// so two deployers of one code write the same bytes.
func (m *Manager) upload(ctx context.Context, stack, bucket string, c *Code) error {
	op := "upload the code of stack " + stack
	head, err := m.o.Clients.Buckets.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &c.Key})
	absent := (*types.NotFound)(nil)
	switch {
	case err == nil && aws.ToInt64(head.ContentLength) == int64(len(c.Zip)):
		return nil
	case err != nil && !errors.As(err, &absent):
		return translate(op, err)
	}
	sum := sha256.Sum256(c.Zip)
	_, err = m.o.Clients.Buckets.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &bucket, Key: &c.Key, Body: bytes.NewReader(c.Zip), ContentLength: aws.Int64(int64(len(c.Zip))),
		ContentType: aws.String("application/zip"), ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum[:])),
	})
	return translate(op, err)
}

// repair makes the functions of a stack again what the stack says. Somebody changed them by hand,
// and CloudFormation does not see that. It returns the functions' names.
func (m *Manager) repair(ctx context.Context, r Rollout, s *Stack) (repaired []string, err error) {
	if r.Code == nil {
		return nil, nil
	}
	resources, err := m.Resources(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	bucket := bucketFor(r.Code, resources)
	sum := sha256.Sum256(r.Code.Zip)
	for _, of := range resources {
		if of.Type != typeFunction || of.Status == string(cftypes.ResourceStatusDeleteComplete) {
			continue
		}
		want := s.Function(s.handlerOf(of.PhysicalID))
		want.SHA256 = hex.EncodeToString(sum[:])
		done, err := m.repairFunction(ctx, of.PhysicalID, bucket, r.Code, want)
		if err != nil {
			return repaired, err
		}
		if done {
			repaired = append(repaired, of.PhysicalID)
		}
	}
	return repaired, nil
}

func (m *Manager) repairFunction(ctx context.Context, name, bucket string, c *Code, want Function) (done bool, err error) {
	out, err := m.o.Clients.Functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return false, translate("compare function "+name+" with its stack", err)
	}
	has := FunctionOf(out)
	differences := has.Differences(want)
	if slices.ContainsFunc(differences, Difference.inCode) {
		if err := m.upload(ctx, name, bucket, c); err != nil {
			return false, err
		}
		in := &lambda.UpdateFunctionCodeInput{FunctionName: &name, S3Bucket: &bucket, S3Key: &c.Key}
		if want.Architecture != "" {
			in.Architectures = []lambdatypes.Architecture{lambdatypes.Architecture(want.Architecture)}
		}
		_, err := m.o.Clients.Functions.UpdateFunctionCode(ctx, in)
		if err := m.awaitUpdate(ctx, "put the code back into function "+name, name, err); err != nil {
			return false, err
		}
	}
	if slices.ContainsFunc(differences, func(d Difference) bool { return !d.inCode() }) {
		_, err := m.o.Clients.Functions.UpdateFunctionConfiguration(ctx, want.update(name, has.Environment))
		if err := m.awaitUpdate(ctx, "put the settings back into function "+name, name, err); err != nil {
			return false, err
		}
	}
	return len(differences) > 0, nil
}

// awaitUpdate waits until Lambda has made a change that was answered with err.
func (m *Manager) awaitUpdate(ctx context.Context, op, name string, err error) error {
	if err != nil {
		return translate(op, err)
	}
	for pace := m.newPause(); ; {
		now, err := m.o.Clients.Functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
		switch {
		case err != nil:
			return translate(op, err)
		case now.LastUpdateStatus == lambdatypes.LastUpdateStatusFailed:
			return fmt.Errorf("%s: Lambda answers %s: %s: correct the cause, then deploy again", op, now.LastUpdateStatusReasonCode, aws.ToString(now.LastUpdateStatusReason))
		case now.LastUpdateStatus != lambdatypes.LastUpdateStatusInProgress:
			return nil
		}
		if err := pace.wait(ctx); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
}

// AwaitMapping waits until the event source mapping of a stack's aggregator is enabled, so
// that the aggregator sees every later write. A stack without an aggregator has nothing to
// wait for. A mapping that somebody disabled is an error.
func (m *Manager) AwaitMapping(ctx context.Context, s *Stack) error {
	function := s.Outputs[OutputAggregator]
	if function == "" {
		return nil
	}
	op := "wait for the event source mapping of " + function
	ctx, cancel := context.WithTimeout(ctx, m.o.MappingTimeout)
	defer cancel()
	for pace := m.newPause(); ; {
		state, err := m.mappingState(ctx, function)
		err = translate(op, err)
		switch {
		case errors.Is(err, store.ErrThrottled):
			pace.slower()
		case err != nil:
			return err
		case state == "Enabled":
			return nil
		case strings.HasPrefix(state, "Disabl"):
			return fmt.Errorf("%s: %w: it is %s, so the aggregator gets no records: enable it with aws lambda update-event-source-mapping --enabled, or deploy again",
				op, store.ErrDisabled, state)
		}
		if err := pace.wait(ctx); err != nil {
			return fmt.Errorf("%s: its state is %q after %v: see the events of the stack, then deploy again: %w", op, state, m.o.MappingTimeout.Round(time.Second), err)
		}
	}
}

// mappingState is the state of a function's mapping, "" if there is none yet.
func (m *Manager) mappingState(ctx context.Context, function string) (string, error) {
	out, err := m.o.Clients.Functions.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: &function})
	if err != nil || len(out.EventSourceMappings) == 0 {
		return "", err
	}
	return aws.ToString(out.EventSourceMappings[0].State), nil
}
