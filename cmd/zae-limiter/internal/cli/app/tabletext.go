package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/manage"
)

// WriteTable writes a table for people.
func WriteTable(w *strings.Builder, v *manage.TableView) {
	Fields(w, "Name", v.Name, "ARN", v.ARN, "Status", v.Status, "Created", v.Created.Format(time.RFC3339),
		"Key", strings.Join(v.Key, ", "), "Size", fmt.Sprintf("%s items, %s bytes (AWS counts about every six hours)", limitarg.Grouped(v.Items), limitarg.Grouped(v.Bytes)),
		"Billing", billing(v), "Expiry", strings.TrimSpace(v.TTL+" "+v.TTLBy), "Stream", v.Stream, "Recovery", recovery(v),
		"Deletion protection", map[bool]string{true: "on", false: "off"}[v.Protect], "CloudFormation stack", v.Stack)
	WriteVersions(w, v.Versions)
	w.WriteByte('\n')
	rows := make([][]string, len(v.Indexes))
	for i, ix := range v.Indexes {
		rows[i] = []string{ix.Name, strings.Join(ix.Key, ", "), ix.Projection, ix.Status, limitarg.Grouped(ix.Items), limitarg.Grouped(ix.Bytes)}
	}
	Table(w, []string{"INDEX", "KEY", "PROJECTION", "STATUS", "ITEMS", "BYTES"}, rows)
	if v.Misfit != "" {
		fmt.Fprintf(w, "\nthe table does not fit this client: %s\n", v.Misfit)
	}
}

func billing(v *manage.TableView) string {
	if v.Read+v.Write == 0 {
		return v.Billing
	}
	return fmt.Sprintf("%s, %d read units and %d write units a second", v.Billing, v.Read, v.Write)
}

func recovery(v *manage.TableView) string {
	if v.Latest == nil || v.Earliest == nil {
		return v.PITR
	}
	return fmt.Sprintf("%s, %s to %s", v.PITR, v.Earliest.Format(time.RFC3339), v.Latest.Format(time.RFC3339))
}

// WriteVersions writes the versions of a table for people; nil is a table without a record.
func WriteVersions(w *strings.Builder, v *manage.VersionsView) {
	if v == nil {
		Fields(w, "Versions", "")
		return
	}
	Fields(w, "Schema version", v.Schema, "Oldest client", v.ClientMin, "Aggregator version", v.Lambda)
}
