package httpapi

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
	"github.com/zeroae/zae-limiter-go/dynamo/admin"
)

// ofTable are the verbs that concern the whole table. A table is not deleted or restored through the service that
// lives on it.
func ofTable() []verb {
	all := slices.Concat(
		reads(
			verbOf("namespace/list", "List the namespaces of the table", "They are in the order of their names.", inNamespaces(func(ctx context.Context, of *admin.Namespaces, _ *nothing) (manage.Namespaces, error) {
				return manage.ListNamespaces(ctx, of)
			})),
			verbOf("namespace/show", "Show a namespace", "Its ID begins the keys of its items.", inNamespaces(func(ctx context.Context, of *admin.Namespaces, in *namespaceNamed) (manage.Namespace, error) {
				return manage.GetNamespace(ctx, of, in.Name)
			})),
			verbOf("namespace/orphans", "List the namespaces without a name", "They can be recovered or purged. If a purge has begun, it can only be completed.", func(ctx context.Context, o *order, _ *nothing) (manage.Orphans, error) {
				of, err := o.namespaces()
				if err != nil {
					return manage.Orphans{}, err
				}
				return manage.ListOrphans(ctx, of, o.Table.Table)
			}),
			verbOf("table/show", "Show the table: keys, indexes, size, billing, stream, recovery, versions", "AWS counts items and bytes about every six hours.",
				inTable(func(ctx context.Context, t *admin.Table, _ *nothing) (*manage.TableView, error) {
					return manage.ShowTable(ctx, t)
				})),
			verbOf("backup/list", "List the on-demand backups of the table", "The newest backup is the first.", func(ctx context.Context, o *order, _ *nothing) (manage.Backups, error) {
				t, err := o.table()
				if err != nil {
					return manage.Backups{}, err
				}
				return manage.ListBackups(ctx, t, o.Table.Table)
			}),
		),
		writes(
			verbOf("namespace/register", "Register namespaces", "Those that exist stay as they are.", inNamespaces(func(ctx context.Context, of *admin.Namespaces, in *namespacesToRegister) (manage.Namespaces, error) {
				if len(in.Names) == 0 {
					return manage.Namespaces{}, invalid("namespaces", "", "give at least one name")
				}
				return manage.RegisterNamespaces(ctx, of, in.Names)
			})),
			verbOf("namespace/delete", "Delete a namespace, leaving its items in the table", "Until it is purged, it can be recovered. Programs that have resolved the name continue to use the namespace until they end.",
				inNamespaces(func(ctx context.Context, of *admin.Namespaces, in *namespaceNamed) (manage.DeletedNamespace, error) {
					return manage.DeleteNamespace(ctx, of, in.Name)
				})),
			verbOf("namespace/recover", "Give an orphaned namespace its name again", "Items that have not expired meanwhile are there again.", inNamespaces(func(ctx context.Context, of *admin.Namespaces, in *namespaceToRecover) (manage.Namespace, error) {
				return manage.RecoverNamespace(ctx, of, in.ID, in.As)
			})),
			verbOf("namespace/purge", "Delete all items of an orphaned namespace, for ever", "A purge that was interrupted continues when the call is repeated. The call reads the whole table once.",
				inNamespaces(func(ctx context.Context, of *admin.Namespaces, in *namespaceToPurge) (manage.PurgedNamespace, error) {
					o := admin.PurgeOptions{}
					if in.Force {
						o.Quiet = -1
					}
					return manage.PurgeNamespace(ctx, of, in.ID, o)
				})),
			verbOf("table/enable-stream", "Give the table the stream that the aggregator follows", "A stream of another view is not replaced. If a stack owns the table, enable the stream in its template as well.",
				inTable(func(ctx context.Context, t *admin.Table, _ *nothing) (manage.EnabledStream, error) {
					return manage.EnableStream(ctx, t)
				})),
			verbOf("backup/create", "Make an on-demand backup of the table", "The answer comes once the backup is available.", inTable(func(ctx context.Context, t *admin.Table, in *backupToMake) (manage.Backup, error) {
				return manage.CreateBackup(ctx, t, in.Name)
			})),
			verbOf("backup/delete", "Delete an on-demand backup of the table", "The call cannot be undone.", inTable(func(ctx context.Context, t *admin.Table, in *backupNamed) (manage.DeletedBackup, error) {
				return manage.DeleteBackup(ctx, t, in.ARN)
			})),
		),
	)
	for i := range all {
		all[i].IsTable = true
	}
	return all
}

// inNamespaces is what answers a verb about the namespaces of the table.
func inNamespaces[In, Out any](run func(context.Context, *admin.Namespaces, *In) (Out, error)) func(context.Context, *order, *In) (Out, error) {
	return func(ctx context.Context, o *order, in *In) (out Out, err error) {
		of, err := o.namespaces()
		if err != nil {
			return out, err
		}
		return run(ctx, of, in)
	}
}

// inTable is what answers a verb about the table.
func inTable[In, Out any](run func(context.Context, *admin.Table, *In) (Out, error)) func(context.Context, *order, *In) (Out, error) {
	return func(ctx context.Context, o *order, in *In) (out Out, err error) {
		t, err := o.table()
		if err != nil {
			return out, err
		}
		return run(ctx, t, in)
	}
}

type namespaceNamed struct {
	Name string `json:"namespace"`
}

type namespacesToRegister struct {
	// Names are the names of the namespaces.
	Names []string `json:"namespaces"`
}

type namespaceToRecover struct {
	ID string `json:"namespace_id"`
	// As is a new name, if the old one was registered again; without it, the old one.
	As string `json:"as,omitempty"`
}

type namespaceToPurge struct {
	ID string `json:"namespace_id"`
	// Force skips the check for recent refills, and its reads of all buckets.
	Force bool `json:"force,omitempty"`
}

type backupToMake struct {
	Name string `json:"backup_name"`
}

type backupNamed struct {
	ARN string `json:"backup_arn"`
}
