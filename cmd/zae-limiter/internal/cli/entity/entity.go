// Package entity has the commands for entities and their own limits.
package entity

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// New is the command entity.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("entity", "Create, list, read and delete entities, set their own limits, and refill buckets",
		newCreate(a), newGet(a), newList(a), newDelete(a), newChildren(a), newListResources(a), newSetParent(a), newReset(a), newTopUp(a), a.SetsCascade(limiter.LevelEntity), a.SetsSlots(limiter.LevelEntity),
		a.SetsLimits(limiter.LevelEntity, &cobra.Command{
			Use: "set-limits", Short: "Replace an entity's own limits for a resource",
			Example: "  zae-limiter entity set-limits key-1 --resource gpt-4 --limit rpm:100/min:150 --limit tpm:10000\n" +
				"  zae-limiter entity set-limits key-1 --limit tpm:50000 --keep-defaults",
		}, "Levels are not merged: these limits hold instead of those of the resource and of the\n"+
			"system. Requests that name another limit fail. With --keep-defaults, the other limits\n"+
			"that the next level has are set, too."),
		a.GetsLimits(limiter.LevelEntity, &cobra.Command{Use: "get-limits", Short: "Show an entity's own limits for a resource"}),
		a.DeletesLimits(limiter.LevelEntity, &cobra.Command{
			Use: "delete-limits", Short: "Delete an entity's own limits for a resource; the next level then applies",
		}))
	cmd.AddCommand(a.Raises(limiter.LevelEntity))
	cmd.AddCommand(a.Switches(limiter.LevelEntity)...)
	return cmd
}

// text writes an entity for people.
func text(w *strings.Builder, v *manage.Entity) {
	metadata := make([]string, 0, len(v.Metadata))
	for _, k := range slices.Sorted(maps.Keys(v.Metadata)) {
		metadata = append(metadata, k+"="+v.Metadata[k])
	}
	app.Fields(w, "ID", v.ID, "Name", v.Name, "Parent", parent(v), "Cascade", yesNo(v.Cascade),
		"Created", v.Created.Format(time.RFC3339), "Metadata", strings.Join(metadata, " "))
}

func parent(v *manage.Entity) string {
	if v.Parent == nil {
		return ""
	}
	return *v.Parent
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
