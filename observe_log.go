package limiter

import (
	"context"
	"log/slog"
)

// LogDecisions returns an [Observer] that writes a log record at debug level for each call
// that ends, with its entity and resource. Unless the logger's handler is enabled for
// debug, it does nothing more than ask the handler. Without a logger it writes nothing.
func LogDecisions(to *slog.Logger) Observer {
	if to == nil {
		to = slog.New(slog.DiscardHandler)
	}
	return decisionLog{to}
}

// A decisionLog writes calls to a log.
type decisionLog struct{ to *slog.Logger }

// BeginCall does nothing.
func (decisionLog) BeginCall(ctx context.Context, _ Call) context.Context { return ctx }

// BeginOperation does nothing.
func (decisionLog) BeginOperation(ctx context.Context, _ Operation) context.Context { return ctx }

// EndOperation does nothing.
func (decisionLog) EndOperation(context.Context, OperationResult) {}

// EndCall writes the record.
func (d decisionLog) EndCall(ctx context.Context, r CallResult) {
	if !d.to.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{
		slog.String("call", string(r.Kind)), slog.String("entity", r.Entity), slog.String("resource", r.Resource),
		slog.String("result", string(r.Result)), slog.Duration("latency", r.Latency), slog.Int("requests", r.Cost.Requests),
	}
	if r.FromMemory {
		attrs = append(attrs, slog.Bool("from_memory", true))
	}
	if r.Carried {
		attrs = append(attrs, slog.Bool("carried", true))
	}
	for i := range r.Statuses {
		if s := &r.Statuses[i]; s.Exceeded {
			attrs = append(attrs, slog.Group("refused_by",
				"entity", s.Entity, "limit", s.Limit.Name, "requested", s.Requested, "available", s.Available, "retry_after", s.RetryAfter))
			break
		}
	}
	if r.Err != nil && r.Result != Refused {
		attrs = append(attrs, slog.String("kind", ErrorKind(r.Err)), slog.Any("error", r.Err))
	}
	d.to.LogAttrs(ctx, slog.LevelDebug, "limiter call", attrs...)
}
