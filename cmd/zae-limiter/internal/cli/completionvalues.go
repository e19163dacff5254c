package cli

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/audit"
	"github.com/zeroae/zae-limiter-go/store"
)

// The completers of flags and arguments. A flag that takes text, and every argument, has an
// entry; a flag of a choice completes its words without one.
var (
	// flags has the flags by name.
	flags = map[string]completer{
		"access-key":           free,
		"action":               words(audit.Actions()...),
		"addr":                 free,
		"admin":                free,
		"adopt-archive":        free,
		"aggregator-role-arn":  free,
		"alarm-sns-topic":      free,
		"allow-host":           free,
		"allow-replacement":    free,
		"also":                 storedThen(":", resources),
		"archive":              free,
		"archive-endpoint":     free,
		"as":                   free,
		"backup":               stored(backups),
		"binary":               file(),
		"class":                free,
		"code-bucket":          free,
		"config":               file("yaml", "yml"),
		"confirm":              stored(tables),
		"consume":              storedList("=", limitsInForce),
		"cost":                 free,
		"cursor":               free,
		"data":                 directory,
		"delete-data":          stored(stackNames),
		"display-name":         free,
		"end":                  free,
		"endpoint-url":         free,
		"entity":               stored(entities),
		"fallback":             storedList(":", limitsInForce),
		"file":                 file("yaml", "yml", "json"),
		"from":                 free,
		"function":             free,
		"grpc":                 free,
		"html":                 file("html"),
		"http":                 free,
		"idempotency-key":      free,
		"image":                free,
		"kms-key":              free,
		"lambda-log-level":     words("debug", "info", "warn", "error"),
		"lambda-zip":           file("zip"),
		"latency":              free,
		"lease-key-file":       file(),
		"limit":                storedList(":", limitsInForce),
		"limits":               file("yaml", "yml", "json"),
		"local":                directory,
		"locust":               free,
		"locust-arguments":     free,
		"locustfile":           file("py"),
		"log-retention-days":   free,
		"malformed-at-most":    free,
		"manifest":             free,
		"master":               free,
		"metadata":             free,
		"metrics-addr":         free,
		"namespace":            stored(namespaces),
		"namespace-name":       stored(namespaces),
		"oidc-audience":        free,
		"oidc-claim":           free,
		"oidc-issuer":          free,
		"oidc-role":            free,
		"out":                  file(),
		"page":                 free,
		"parameters":           file("json"),
		"past":                 file(),
		"parent":               stored(entities),
		"partition-limits":     words("aws", "off"),
		"permission-boundary":  free,
		"policy-name-format":   free,
		"prefix":               stored(entities),
		"prices":               file("yaml", "yml", "json"),
		"principal":            free,
		"provisioner-role-arn": free,
		"queue-url":            free,
		"rate":                 free,
		"ratelimit-config":     file("yaml", "yml"),
		"ratelimit-xds":        free,
		"reader":               free,
		"reason":               free,
		"refuse-at-most":       free,
		"region":               free,
		"resource":             stored(resources),
		"resource-is":          free,
		"retain":               free,
		"role-name-format":     free,
		"route-table-ids":      free,
		"scenario":             words(scenario.Names()...),
		"scenario-file":        file("yaml", "yml", "json"),
		"secret-key":           free,
		"shape":                free,
		"side":                 commaList(sides()...),
		"skip":                 free,
		"slot-fallback":        storedList(":", slotsInForce),
		"slots":                storedList(":", slotsInForce),
		"start":                free,
		"stream-bytes":         free,
		"subnet-ids":           free,
		"table":                stored(tables),
		"tag":                  free,
		"threshold":            free,
		"time":                 free,
		"time-layout":          free,
		"tls-cert":             file("pem", "crt"),
		"tls-client-ca":        file("pem", "crt"),
		"tls-key":              file("pem", "key"),
		"to-time":              free,
		"token-file":           file(),
		"until":                free,
		"url":                  free,
		"vpc-id":               free,
		"worker-image":         free,
		"xds-cluster":          free,
		"xds-node":             free,
		"xds-tls-ca":           file("pem", "crt"),
		"xds-tls-cert":         file("pem", "crt"),
		"xds-tls-key":          file("pem", "key"),
		"xds-tls-name":         free,
		"zone":                 free,
	}

	// flagsOf has those of a command that mean something else there.
	flagsOf = map[string]completer{
		"hold slots":           storedList("=", slotsInForce),
		"limits plan date":     free, // columns of a log
		"limits plan entity":   free,
		"limits plan parent":   free,
		"limits plan resource": free,
		"replay date":          free, // columns of a log
		"replay entity":        free,
		"replay parent":        free,
		"replay resource":      free,
	}

	// argumentsNamed has the arguments by their names in usages.
	argumentsNamed = map[string]completer{
		"A.json":      file("json"),
		"ARN":         stored(backups),
		"B.json":      file("json"),
		"CLASS":       free,
		"COMMAND":     file(),
		"DAYS":        free,
		"ENTITY":      stored(entities),
		"FILE":        file(),
		"ID":          stored(entities),
		"NAME":        stored(namespaces),
		"NEW-TABLE":   free,
		"POLICY":      words(manage.CascadePolicies...),
		"RESOURCE":    stored(resources),
		"RESULT.json": file("json"),
		"SCENARIO":    words(scenario.Names()...),
		"SPEC":        free,
	}

	// argumentsOf has those of a command that mean something else there.
	argumentsOf = map[string]completer{
		"backup create NAME":      free,
		"entity create ID":        free,
		"name decode ID":          stored(entities),
		"name encode NAME":        free,
		"namespace purge ID":      stored(orphans),
		"namespace recover ID":    stored(orphans),
		"namespace register NAME": free,
	}
)

// sides are the names of the systems that carry out a load.
func sides() []string {
	return []string{string(scenario.Limiter), string(scenario.Shared), string(scenario.Sticky), string(scenario.Bare)}
}

// entities are those whose IDs begin as typed, in whatever form the namespace has them;
// [dynamo.Store.EntityIDs] bounds the requests.
func entities(ctx context.Context, a *app.App, at *place) ([]string, error) {
	s, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	return s.EntityIDs(ctx, at.typed)
}

// resources are those with default limits, and those that the entity uses which is named
// before.
func resources(ctx context.Context, a *app.App, at *place) ([]string, error) {
	s, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	names, err := s.ResourcesWithDefaults(ctx)
	if err != nil {
		return nil, err
	}
	entity := at.entity()
	if entity == "" {
		more, err := s.ResourcesWithEntityLimits(ctx)
		return withoutDefault(append(names, more...)), err
	}
	used, err := s.EntityResources(ctx, entity)
	for _, r := range used {
		names = append(names, r.Resource)
	}
	return withoutDefault(names), err
}

// entity is the entity that the command line names, "" if it names none yet.
func (p *place) entity() string {
	for _, id := range []string{p.argument("ENTITY"), p.argument("ID"), p.flag("entity")} {
		if id != "" {
			return id
		}
	}
	return ""
}

// withoutDefault leaves out what is no resource.
func withoutDefault(names []string) []string {
	var all []string
	for _, name := range names {
		if name != store.DefaultResource {
			all = append(all, name)
		}
	}
	return all
}

// limitsInForce are the names of the limits at the levels that hold for the entity and the
// resource which are named before.
func limitsInForce(ctx context.Context, a *app.App, at *place) ([]string, error) {
	return namesInForce(ctx, a, at, func(c *store.Config) (names []string) {
		for _, l := range c.Limits {
			names = append(names, l.Name)
		}
		return names
	})
}

// slotsInForce are those of limits of slots.
func slotsInForce(ctx context.Context, a *app.App, at *place) ([]string, error) {
	return namesInForce(ctx, a, at, func(c *store.Config) (names []string) {
		for _, l := range c.Slots {
			names = append(names, l.Name)
		}
		return names
	})
}

// namesInForce are the names that the function finds at the levels that hold for the entity and the
// resource which are named before.
func namesInForce(ctx context.Context, a *app.App, at *place, of func(*store.Config) []string) ([]string, error) {
	s, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	entity, resource := at.entity(), at.argument("RESOURCE")
	if resource == "" {
		resource = at.flag("resource")
	}
	levels := []store.ConfigKey{{}}
	if resource != "" {
		levels = append(levels, store.ConfigKey{Resource: resource})
	}
	if entity != "" {
		levels = append(levels, store.ConfigKey{Entity: entity, Resource: store.DefaultResource})
	}
	if entity != "" && resource != "" {
		levels = append(levels, store.ConfigKey{Entity: entity, Resource: resource})
	}
	var names []string
	for _, level := range levels {
		c, err := s.Limits(ctx, level)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return names, err
		}
		names = append(names, of(c)...)
	}
	return names, nil
}

// namespaces are those of the table.
func namespaces(ctx context.Context, a *app.App, _ *place) ([]string, error) {
	n, err := a.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.List(ctx)
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return names, err
}

// orphans are the IDs of the namespaces without a name.
func orphans(ctx context.Context, a *app.App, _ *place) ([]string, error) {
	n, err := a.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	all, err := n.Orphans(ctx)
	ids := make([]string, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids, err
}

// tables are up to 100 tables of the connection; for a command about stacks, the stacks. No
// policy of a stack permits ListTables. At AWS, where it fails, the names of the stacks are
// those of their tables, for a role that may list stacks.
func tables(ctx context.Context, a *app.App, at *place) ([]string, error) {
	if at.cmd.Flags().Lookup("local") == nil {
		return stackNames(ctx, a, at)
	}
	names, err := a.TableNames(ctx)
	if err != nil && a.Flags.Local == "" && a.Flags.EndpointURL == "" {
		return stackNames(ctx, a, at)
	}
	return names, err
}

// stackNames are the stacks of limiters in the region.
func stackNames(ctx context.Context, a *app.App, _ *place) ([]string, error) {
	m, _, err := a.Stacks(ctx)
	if err != nil {
		return nil, err
	}
	l, err := m.List(ctx)
	var names []string
	for _, s := range l.Stacks {
		names = append(names, s.UserName())
	}
	return names, err
}

// backups are the ARNs of the table's backups.
func backups(ctx context.Context, a *app.App, _ *place) ([]string, error) {
	t, err := a.Table(ctx)
	if err != nil {
		return nil, err
	}
	all, err := t.Backups(ctx)
	arns := make([]string, len(all))
	for i := range all {
		arns[i] = all[i].ARN
	}
	return arns, err
}
