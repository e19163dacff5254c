package permissions_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/manifest/customresource"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/internal/test/testbed"
	"github.com/zeroae/zae-limiter-go/store"
)

var (
	ofSystem   = store.ConfigKey{}
	ofResource = store.ConfigKey{Resource: testbed.Resource}
	ofUser     = store.ConfigKey{Entity: "user", Resource: testbed.Resource}
	ofUsers    = store.ConfigKey{Entity: "user", Resource: store.DefaultResource}
)

// declared is a manifest with one limit for each level.
func declared(rate int64, keys ...store.ConfigKey) *manifest.Manifest {
	m := &manifest.Manifest{Name: "core", Namespace: dynamo.DefaultNamespace, Levels: map[store.ConfigKey]manifest.Level{}}
	for _, k := range keys {
		m.Levels[k] = manifest.Level{Limits: []store.Limit{limiter.PerHour("rph", rate)}}
	}
	return m
}

// manifests has the calls about limits as files.
func manifests(w *world) {
	m, err := manifest.New(w.Store)
	w.Must(err)
	at := func(method, name string, f func() error) {
		w.Helper()
		w.record("manifest.Manager."+method, name, func() { w.Must(f()) })
	}
	w.double("guest")
	apply := func(of *manifest.Manifest) func() error {
		return func() error {
			r, err := m.Apply(w.Context(), of, manifest.ApplyOptions{Prune: true})
			if err != nil || len(r.Failures()) > 0 {
				return errors.Join(err, errors.New("not everything was applied"))
			}
			return nil
		}
	}
	all := declared(3600, ofSystem, ofResource, ofUser, ofUsers)
	at("Plan", "nothing is there", func() error { return errOf(m.Plan(w.Context(), all, true)) })
	at("Apply", "levels are created", apply(all))
	w.double("user")
	at("Plan", always, func() error { return errOf(m.Plan(w.Context(), all, true)) })
	at("Apply", "nothing has changed", apply(all))
	at("Apply", "levels are changed", apply(declared(1800, ofSystem, ofResource, ofUser, ofUsers)))
	off := declared(1800, ofSystem, ofResource, ofUser)
	for k, l := range off.Levels {
		if l.Disabled.Policy = store.No; k != ofSystem {
			off.Levels[k] = l
		}
	}
	at("Apply", "switches are set", apply(off))
	at("Apply", "levels are deleted", apply(declared(1800, ofSystem)))
	w.Must(w.Store.SetLimits(w.Context(), ofResource, []limiter.Limit{hourly}))
	at("Import", always, func() error { return errOf(m.Import(w.Context(), declared(3600, ofResource), true)) })
	at("Export", always, func() error {
		_, _, err := m.Export(w.Context(), "core")
		return err
	})
}

// levels has the calls of the store behind limits as files.
func levels(w *world) {
	ctx, s := w.Context(), w.Store
	limits := []limiter.Limit{hourly}
	w.stored("SetLevels", always, func() error {
		return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: ofSystem, Limits: limits}, {Key: ofResource, Limits: limits}, {Key: ofUsers, Limits: limits}})...)
	})
	w.double("user")
	w.stored("SetLevels", "of an entity with buckets", func() error {
		return errors.Join(s.SetLevels(ctx, []dynamo.Level{{Key: ofUser, Limits: []limiter.Limit{limiter.PerHour("rph", 1800)}}})...)
	})
	w.stored("Unconfigured", always, func() error {
		return errOf(s.Unconfigured(ctx, []dynamo.Level{
			{Key: ofUser, Limits: limits},
			{Key: ofUsers, Limits: limits},
			{Key: ofResource},
			{Key: ofSystem, Limits: []limiter.Limit{limiter.PerDay("rpd", 10)}},
		}))
	})
	w.stored("ConfiguredLevels", always, func() error { return errOf(s.ConfiguredLevels(ctx)) })
	held := func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
		own.Holder, own.HeldUntil = "me", time.Now().Add(time.Minute)
		own.Levels = map[store.ConfigKey]string{ofUser: ""}
		return nil
	}
	w.stored("ChangeManifest", "a new one", func() error { return s.ChangeManifest(ctx, "core", held) })
	w.stored("CheckNamespace", always, func() error { return s.CheckNamespace(ctx) })
	w.stored("HoldManifest", always, func() error { return s.HoldManifest(ctx, "core", "me", time.Now().Add(time.Hour)) })
	w.stored("Manifests", always, func() error { return errOf(s.Manifests(ctx)) })
	w.stored("ChangeManifest", "nothing is left of it", func() error {
		return s.ChangeManifest(ctx, "core", func(own *dynamo.ManifestRecord, _ []dynamo.ManifestRecord) error {
			*own = dynamo.ManifestRecord{Name: own.Name}
			return nil
		})
	})
	w.stored("DeleteLevels", always, func() error {
		return errors.Join(s.DeleteLevels(ctx, []store.ConfigKey{ofSystem, ofResource, ofUser, ofUsers})...)
	})
}

// An answer is the last one to CloudFormation.
type answer struct{ Status, PhysicalResourceId string } //nolint:staticcheck // CloudFormation's spelling

func (a *answer) RoundTrip(r *http.Request) (*http.Response, error) {
	err := json.NewDecoder(r.Body).Decode(a)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, err
}

// provisioning has the handler of the custom resource.
func provisioning(w *world) {
	a := &answer{}
	h, err := customresource.New(customresource.Options{
		API: w.API, Table: testbed.Table, Client: &http.Client{Transport: a}, Principal: "tester",
	})
	w.Must(err)
	send := func(request, name, resources string) {
		w.Helper()
		event, err := json.Marshal(map[string]any{
			"RequestType": request, "ResponseURL": "https://example.com/answer", "RequestId": "1", "LogicalResourceId": "Limits",
			"StackId":            "arn:aws:cloudformation:eu-west-1:123456789012:stack/app/1",
			"PhysicalResourceId": a.PhysicalResourceId, "ResourceType": customresource.Type,
			"ResourceProperties": json.RawMessage(`{"ServiceToken":"arn","TableName":"limits","Namespace":"default",` + resources + `}`),
		})
		w.Must(err)
		w.record("customresource.Handler.Handle", name, func() { w.Must(errOf(h.Handle(w.Context(), event))) })
		if a.Status != "SUCCESS" {
			w.Errorf("%s: %+v", name, a)
		}
	}
	limits := func(capacity string) string {
		l := `{"Limits":{"rph":{"Capacity":"` + capacity + `"}}}`
		return `"System":` + l + `,"Resources":{"gpt-4":` + l + `},"Entities":{"user":{"Resources":{"gpt-4":` + l + `}}}`
	}
	send("Create", "create", limits("10"))
	w.double("user")
	send("Update", "update", limits("20"))
	send("Update", "delete levels", `"Resources":{"gpt-4":{"Limits":{"rph":{"Capacity":"20"}}}}`)
	send("Delete", "delete", limits("20"))
}
