package loadstack_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy/loadstack"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/optiontest"
	"github.com/zeroae/zae-limiter-go/store"
)

// noise is text that does not become shorter.
func noise(n int) []byte {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte(rand.Uint32())
	}
	return []byte(base64.StdEncoding.EncodeToString(text))
}

// Each row refuses what is beyond its bounds, not among its values, or unlike its pattern.
func TestTheTableRefuses(t *testing.T) {
	t.Parallel()
	valid := func() loadstack.Options {
		o := least()
		o.WorkerImage = "x" // which workers on Fargate need
		return o
	}
	for _, problem := range optiontest.Accepted(loadstack.OptionTable, valid, func(o loadstack.Options) error {
		_, err := loadstack.New(o)
		return err
	}) {
		t.Error(problem)
	}
}

// The template bounds each parameter as the table does, and has the same defaults.
func TestTheTemplateHasTheBoundsOfTheTable(t *testing.T) {
	t.Parallel()
	for _, problem := range optiontest.Differences(loadstack.OptionTable, string(newSpec(t, least()).Template())) {
		t.Error(problem)
	}
}

// Every option has a row, whose name is that of the field.
func TestEveryOptionHasARow(t *testing.T) {
	t.Parallel()
	for _, problem := range optiontest.Unnamed(loadstack.OptionTable, "Version") {
		t.Error(problem)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*loadstack.Options)
		field string
		says  string
	}{
		"no limiter":             {func(o *loadstack.Options) { o.Limiter = "" }, "Limiter", "give the name"},
		"a limiter's name":       {func(o *loadstack.Options) { o.Limiter = "a.b" }, "Limiter", "letters"},
		"the table's own":        {func(o *loadstack.Options) { o.NamespaceID = "_" }, "NamespaceID", "ID of the namespace"},
		"every namespace":        {func(o *loadstack.Options) { o.NamespaceID = "ns*" }, "NamespaceID", "ID of the namespace"},
		"no subnets":             {func(o *loadstack.Options) { o.Subnets = nil }, "Subnets", "1 to 16"},
		"endpoints alone":        {func(o *loadstack.Options) { o.PrivateEndpoints = true }, "PrivateEndpoints", "route tables"},
		"an image from afar":     {func(o *loadstack.Options) { o.PrivateEndpoints, o.RouteTables = true, []string{"rtb-01234567"} }, "Image", "ECR"},
		"a port of the master":   {func(o *loadstack.Options) { o.Arguments = []string{"--web-port=80"} }, "Arguments", "besides"},
		"no classes":             {func(o *loadstack.Options) { o.Classes = nil }, "Locustfile", "classes"},
		"a class":                {func(o *loadstack.Options) { o.Classes[0].Name = `x"` }, "Classes", "letters"},
		"a weight":               {func(o *loadstack.Options) { o.Classes[0].Weight = 0 }, "Classes", "weight"},
		"a long locustfile":      {func(o *loadstack.Options) { o.Locustfile = noise(4000) }, "Locustfile", "4096 have room"},
		"memory for a processor": {func(o *loadstack.Options) { o.MemoryMB = 1024 }, "MemoryMB", "2048 to 8192"},
		"odd memory":             {func(o *loadstack.Options) { o.MemoryMB = 3000 }, "MemoryMB", "steps of 1024"},
		"two scenarios":          {func(o *loadstack.Options) { o.File = []byte("x") }, "Scenario", "either"},
		"no scenario":            {func(o *loadstack.Options) { o.Scenario = "" }, "Scenario", "either"},
		"a long scenario":        {func(o *loadstack.Options) { o.Scenario, o.File = "", noise(3000) }, "File", "3000 have room"},
		"a file for an event":    {func(o *loadstack.Options) { o.Scenario, o.File = "", bytes.Repeat([]byte("a"), 1<<17+1) }, "File", "at most 131072"},
		"the peer's timeout":     {func(o *loadstack.Options) { o.WorkerTimeout = 5 * time.Minute }, "WorkerTimeout", "7m30s to 15m0s"},
		"fewer than the least":   {func(o *loadstack.Options) { o.MinWorkers, o.MaxWorkers = 5, 4 }, "MaxWorkers", "5 to 1000"},
		"tasks without an image": {func(o *loadstack.Options) { o.FargateWorkers = 1 }, "WorkerImage", "image"},
		"tasks with a file":      {func(o *loadstack.Options) { o.WorkerImage, o.Scenario, o.File = "x", "", []byte("x") }, "WorkerImage", "of the program only"},
		"a format":               {func(o *loadstack.Options) { o.RoleNameFormat = "x" }, "RoleNameFormat", "{}"},
		"a long format":          {func(o *loadstack.Options) { o.RoleNameFormat = strings.Repeat("x", 50) + "{}" }, "RoleNameFormat", "too long"},
		"a tag of AWS":           {func(o *loadstack.Options) { o.Tags = map[string]string{"aws:x": ""} }, "Tags", "reserves"},
	} {
		o := least()
		c.spoil(&o)
		_, err := loadstack.New(o)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != c.field || !strings.Contains(bad.Reason, c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Sizes of Fargate at their bounds.
func TestSizesOfTasks(t *testing.T) {
	t.Parallel()
	for cpu, mb := range map[int][2]int{256: {512, 2048}, 512: {1024, 4096}, 1024: {2048, 8192}, 2048: {4096, 16384}, 4096: {8192, 30720}} {
		for _, c := range []struct {
			mb int
			ok bool
		}{{mb[0], true}, {mb[1], true}, {mb[0] - 1, false}, {mb[1] + 1024, false}} {
			o := least()
			o.CPU, o.MemoryMB = cpu, c.mb
			if _, err := loadstack.New(o); (err == nil) != c.ok {
				t.Errorf("%d CPU, %d MB: %v", cpu, c.mb, err)
			}
		}
	}
}

// An update begins with the options of the stack.
func TestOptionsComeBackFromParameters(t *testing.T) {
	t.Parallel()
	for name, o := range shapes() {
		spec := newSpec(t, o)
		has := map[string]string{}
		for _, p := range spec.Parameters() {
			has[p.Key] = p.Value
		}
		got, err := loadstack.OptionsOf("limits", has)
		if err != nil {
			t.Fatal(err)
		}
		want := spec.Options()
		if want.RoleNameFormat == "" {
			got.RoleNameFormat = strings.TrimPrefix(got.RoleNameFormat, "{}")
		}
		want.Classes, want.Tags, want.Version = nil, nil, ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-options +from the parameters):\n%s", name, diff)
		}
	}
	for key, value := range map[string]string{"TaskCpu": "many", "AssignPublicIp": "yes", "Locustfile": "?", "WorkerTimeout": "5m"} {
		_, err := loadstack.OptionsOf("limits", map[string]string{key: value})
		if bad := (*store.ValidationError)(nil); !errors.As(err, &bad) || bad.Field != "parameter "+key {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The peer's template takes the format of roles apart, which fails if the limiter's stack
// exports an empty one.
func TestAnEmptyFormatOfRolesIsNone(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][2]string{"": {}, "{}": {}, "team-{}": {"team-", ""}, "a{}b": {"a", "b"}} {
		o := least()
		o.Adopt(map[string]string{"RoleNameFormat": format})
		for _, p := range newSpec(t, o).Parameters() {
			if p.Key == "RoleNamePrefix" && p.Value != want[0] || p.Key == "RoleNameSuffix" && p.Value != want[1] {
				t.Errorf("format %q: %s is %q", format, p.Key, p.Value)
			}
		}
	}
}

func TestTheLimitersOutputsAreAdopted(t *testing.T) {
	t.Parallel()
	outputs := map[string]string{
		"TableArn": "arn:aws:dynamodb:eu-west-1:1:table/limits", "KeyPolicyArn": "key", "CodeBucketName": "code", "PermissionBoundaryArn": "edge", "RoleNameFormat": "x{}",
	}
	var o loadstack.Options
	o.Adopt(outputs)
	want := loadstack.Options{TableARN: outputs["TableArn"], KeyPolicyARN: "key", CodeBucket: "code", PermissionBoundary: "edge", RoleNameFormat: "x{}"}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	o = loadstack.Options{CodeBucket: "mine"}
	if o.Adopt(outputs); o.CodeBucket != "mine" {
		t.Errorf("the bucket of the user becomes %s", o.CodeBucket)
	}
}

func TestTagsAreTheProjects(t *testing.T) {
	t.Parallel()
	o := widest()
	o.Tags["ManagedBy"] = "somebody"
	want := []deploy.Tag{{Key: "ManagedBy", Value: "zae-limiter"}, {Key: "team", Value: "core"}, {Key: "zae-limiter:name", Value: "limits"}, {Key: "zae-limiter:type", Value: "load-test"}, {Key: "zae-limiter:version", Value: "v1.2.3"}}
	if diff := cmp.Diff(want, newSpec(t, o).Tags()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// The concurrency has room for replacements. The peer reserves the maximum, so its workers
// cannot be replaced while all of them run.
func TestTheConcurrencyHasRoomForReplacements(t *testing.T) {
	t.Parallel()
	for _, o := range shapes() {
		spec := newSpec(t, o)
		if got, most := spec.Concurrency(), spec.Options().MaxWorkers; got <= most {
			t.Errorf("%d calls are reserved for %d workers", got, most)
		}
	}
}

func TestPackedTextsAreBounded(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 1<<21)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := loadstack.Unpack(base64.StdEncoding.EncodeToString(packed.Bytes())); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a parameter of %d bytes becomes 2 MB: %v", packed.Len(), err)
	}
	if text, err := loadstack.Unpack(""); err != nil || text != nil {
		t.Errorf("the empty parameter is %q, %v", text, err)
	}
}
