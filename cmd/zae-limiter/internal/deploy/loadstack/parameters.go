package loadstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/internal/parameter"
)

// parameters are the parameters of the template, in its order.
var parameters = []parameter.Parameter[Options]{
	{Key: "TableName", Get: func(o *Options) string { return o.Limiter }},
	parameter.Text("TableArn", func(o *Options) *string { return &o.TableARN }),
	parameter.Text("Namespace", func(o *Options) *string { return &o.Namespace }),
	parameter.Text("NamespaceId", func(o *Options) *string { return &o.NamespaceID }),
	parameter.Text("KeyPolicyArn", func(o *Options) *string { return &o.KeyPolicyARN }),
	parameter.Text("VpcId", func(o *Options) *string { return &o.VPC }),
	parameter.List("SubnetIds", ",", func(o *Options) *[]string { return &o.Subnets }),
	parameter.List("RouteTableIds", ",", func(o *Options) *[]string { return &o.RouteTables }),
	parameter.Choice("AssignPublicIp", "DISABLED", "ENABLED", func(o *Options) *bool { return &o.PublicIP }),
	parameter.Choice("PrivateEndpoints", "false", "true", func(o *Options) *bool { return &o.PrivateEndpoints }),
	parameter.Choice("MasterCount", "1", "0", func(o *Options) *bool { return &o.Off }),
	parameter.Text("LocustImage", func(o *Options) *string { return &o.Image }),
	parameter.List("LocustArguments", " ", func(o *Options) *[]string { return &o.Arguments }),
	file("Locustfile", func(o *Options) *[]byte { return &o.Locustfile }),
	parameter.Number("TaskCpu", func(o *Options) *int { return &o.CPU }),
	parameter.Number("TaskMemory", func(o *Options) *int { return &o.MemoryMB }),
	parameter.Text("TaskArchitecture", func(o *Options) *TaskArchitecture { return &o.TaskArchitecture }),
	parameter.Text("CapacityProvider", func(o *Options) *Capacity { return &o.Capacity }),
	parameter.Text("CodeBucket", func(o *Options) *string { return &o.CodeBucket }),
	parameter.Text("CodeKey", func(o *Options) *string { return &o.CodeKey }),
	parameter.Text("Architecture", func(o *Options) *deploy.Architecture { return &o.Architecture }),
	parameter.Text("Scenario", func(o *Options) *string { return &o.Scenario }),
	file("ScenarioFile", func(o *Options) *[]byte { return &o.File }),
	parameter.Number("WorkerMemorySize", func(o *Options) *int { return &o.WorkerMemoryMB }),
	parameter.Seconds("WorkerTimeout", func(o *Options) *time.Duration { return &o.WorkerTimeout }),
	parameter.Number("MinWorkers", func(o *Options) *int { return &o.MinWorkers }),
	parameter.Number("MaxWorkers", func(o *Options) *int { return &o.MaxWorkers }),
	{Key: "WorkerConcurrency", Get: func(o *Options) string { return strconv.Itoa((&Spec{*o}).Concurrency()) }},
	parameter.Number("UsersPerWorker", func(o *Options) *int { return &o.UsersPerWorker }),
	parameter.Text("WorkerImage", func(o *Options) *string { return &o.WorkerImage }),
	parameter.Number("FargateWorkers", func(o *Options) *int { return &o.FargateWorkers }),
	parameter.Number("LogRetentionDays", func(o *Options) *int { return &o.LogRetentionDays }),
	parameter.Text("PermissionBoundary", func(o *Options) *string { return &o.PermissionBoundary }),
	parameter.Prefix("RoleNamePrefix", func(o *Options) *string { return &o.RoleNameFormat }),
	parameter.Suffix("RoleNameSuffix", func(o *Options) *string { return &o.RoleNameFormat }),
}

// Parameters returns a value for each parameter of the template, in the template's order.
func (s *Spec) Parameters() []deploy.Parameter {
	all := make([]deploy.Parameter, 0, len(parameters))
	for _, p := range parameters {
		all = append(all, deploy.Parameter{Key: p.Key, Value: p.Get(&s.o)})
	}
	return all
}

// OptionsOf reads the options of a limiter's stack for load tests back from its parameters,
// so that an update can keep what it does not change. A parameter that the stack does not
// have keeps its default, and a parameter that this version does not know is ignored: stacks
// of the Python package have some. Tags and version are not in the parameters. A value that
// cannot be read gives a [*store.ValidationError].
func OptionsOf(limiter string, has map[string]string) (Options, error) {
	o := Options{Limiter: limiter}
	err := parameter.Read(parameters, has, &o)
	return o, err
}

// file is a text of a user, which the parameter has packed.
func file(key string, field func(*Options) *[]byte) parameter.Parameter[Options] {
	return parameter.Parameter[Options]{
		Key: key,
		Get: func(o *Options) string { value, _ := pack(*field(o)); return value }, // New has packed it before
		Set: func(o *Options, v string) (err error) { *field(o), err = Unpack(v); return err },
	}
}

// pack makes a parameter of a text: gzip in base64. The empty text is the empty parameter.
func pack(text []byte) (string, error) {
	if len(text) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return "", fmt.Errorf("pack a parameter: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// maxUnpacked is the longest text that a parameter is unpacked to, that of a scenario.
const maxUnpacked = maxFileBytes

// Unpack returns the text of a parameter that has a file.
func Unpack(value string) ([]byte, error) {
	const advice = "give a text, gzip in base64"
	packed, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", advice, err)
	}
	if len(packed) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", advice, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", advice, err)
	case len(text) > maxUnpacked:
		return nil, fmt.Errorf("%s of at most %d bytes", advice, maxUnpacked)
	}
	return text, nil
}
