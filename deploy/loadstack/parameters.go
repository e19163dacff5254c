package loadstack

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/deploy"
	"github.com/zeroae/zae-limiter-go/store"
)

// A parameter of the template is a field of the options, in both directions. set is nil
// where the value follows from other fields.
type parameter struct {
	key string
	get func(*Options) string
	set func(*Options, string) error
}

// parameters are the parameters of the template, in its order.
var parameters = []parameter{
	{"TableName", func(o *Options) string { return o.Limiter }, nil},
	text("TableArn", func(o *Options) *string { return &o.TableARN }),
	text("Namespace", func(o *Options) *string { return &o.Namespace }),
	text("NamespaceId", func(o *Options) *string { return &o.NamespaceID }),
	text("KeyPolicyArn", func(o *Options) *string { return &o.KeyPolicyARN }),
	text("VpcId", func(o *Options) *string { return &o.VPC }),
	list("SubnetIds", ",", func(o *Options) *[]string { return &o.Subnets }),
	list("RouteTableIds", ",", func(o *Options) *[]string { return &o.RouteTables }),
	choice("AssignPublicIp", "DISABLED", "ENABLED", func(o *Options) *bool { return &o.PublicIP }),
	choice("PrivateEndpoints", "false", "true", func(o *Options) *bool { return &o.PrivateEndpoints }),
	choice("MasterCount", "1", "0", func(o *Options) *bool { return &o.Off }),
	text("LocustImage", func(o *Options) *string { return &o.Image }),
	list("LocustArguments", " ", func(o *Options) *[]string { return &o.Arguments }),
	file("Locustfile", func(o *Options) *[]byte { return &o.Locustfile }),
	number("TaskCpu", func(o *Options) *int { return &o.CPU }),
	number("TaskMemory", func(o *Options) *int { return &o.MemoryMB }),
	text("TaskArchitecture", func(o *Options) *TaskArchitecture { return &o.TaskArchitecture }),
	text("CapacityProvider", func(o *Options) *Capacity { return &o.Capacity }),
	text("CodeBucket", func(o *Options) *string { return &o.CodeBucket }),
	text("CodeKey", func(o *Options) *string { return &o.CodeKey }),
	text("Architecture", func(o *Options) *deploy.Architecture { return &o.Architecture }),
	text("Scenario", func(o *Options) *string { return &o.Scenario }),
	file("ScenarioFile", func(o *Options) *[]byte { return &o.File }),
	number("WorkerMemorySize", func(o *Options) *int { return &o.WorkerMemoryMB }),
	{"WorkerTimeout", func(o *Options) string { return strconv.Itoa(int(o.WorkerTimeout / time.Second)) }, setTimeout},
	number("MinWorkers", func(o *Options) *int { return &o.MinWorkers }),
	number("MaxWorkers", func(o *Options) *int { return &o.MaxWorkers }),
	{"WorkerConcurrency", func(o *Options) string { return strconv.Itoa((&Spec{*o}).Concurrency()) }, nil},
	number("UsersPerWorker", func(o *Options) *int { return &o.UsersPerWorker }),
	text("WorkerImage", func(o *Options) *string { return &o.WorkerImage }),
	number("FargateWorkers", func(o *Options) *int { return &o.FargateWorkers }),
	number("LogRetentionDays", func(o *Options) *int { return &o.LogRetentionDays }),
	text("PermissionBoundary", func(o *Options) *string { return &o.PermissionBoundary }),
	{"RoleNamePrefix", func(o *Options) string { before, _, _ := strings.Cut(o.RoleNameFormat, placeholder); return before }, setPrefix},
	{"RoleNameSuffix", func(o *Options) string { _, after, _ := strings.Cut(o.RoleNameFormat, placeholder); return after }, setSuffix},
}

const placeholder = "{}"

// Parameters returns a value for each parameter of the template, in the template's order.
func (s *Spec) Parameters() []deploy.Parameter {
	all := make([]deploy.Parameter, 0, len(parameters))
	for _, p := range parameters {
		all = append(all, deploy.Parameter{Key: p.key, Value: p.get(&s.o)})
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
	for _, p := range parameters {
		value := has[p.key]
		if value == "" || p.set == nil {
			continue
		}
		if err := p.set(&o, value); err != nil {
			return o, &store.ValidationError{Field: "parameter " + p.key, Value: value, Reason: err.Error()}
		}
	}
	return o, nil
}

func text[T ~string](key string, field func(*Options) *T) parameter {
	return parameter{
		key,
		func(o *Options) string { return string(*field(o)) },
		func(o *Options, v string) error { *field(o) = T(v); return nil },
	}
}

func list(key, separator string, field func(*Options) *[]string) parameter {
	return parameter{
		key,
		func(o *Options) string { return strings.Join(*field(o), separator) },
		func(o *Options, v string) error { *field(o) = strings.Split(v, separator); return nil },
	}
}

func number(key string, field func(*Options) *int) parameter {
	return parameter{
		key,
		func(o *Options) string { return strconv.Itoa(*field(o)) },
		func(o *Options, v string) (err error) { *field(o), err = integer(v); return err },
	}
}

// choice is a field with one word for false and one for true.
func choice(key, no, yes string, field func(*Options) *bool) parameter {
	return parameter{
		key,
		func(o *Options) string {
			if *field(o) {
				return yes
			}
			return no
		},
		func(o *Options, v string) error {
			if v != no && v != yes {
				return fmt.Errorf("give %s or %s", no, yes)
			}
			*field(o) = v == yes
			return nil
		},
	}
}

// file is a text of a user, which the parameter has packed.
func file(key string, field func(*Options) *[]byte) parameter {
	return parameter{
		key,
		func(o *Options) string { value, _ := pack(*field(o)); return value }, // New has packed it before
		func(o *Options, v string) (err error) { *field(o), err = Unpack(v); return err },
	}
}

func setTimeout(o *Options, v string) error {
	n, err := integer(v)
	o.WorkerTimeout = time.Duration(n) * time.Second
	return err
}

func setPrefix(o *Options, v string) error {
	o.RoleNameFormat = v + placeholder
	return nil
}

// setSuffix follows setPrefix in the order of the parameters.
func setSuffix(o *Options, v string) error {
	if o.RoleNameFormat == "" {
		o.RoleNameFormat = placeholder
	}
	o.RoleNameFormat += v
	return nil
}

func integer(v string) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, errors.New("give a whole number")
	}
	return n, nil
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
