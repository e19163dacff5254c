package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// The variables of OpenTelemetry that say whether spans are exported, and how. The exporters read
// those about headers, certificates and time-outs themselves.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// The protocols of OTLP that are spoken.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// Settings are what the environment says about spans.
type Settings struct{ protocol string }

// A VariableError is a variable of the environment that is not valid.
type VariableError struct {
	Name, Value string
	Remedy      string // what to do
}

func (e *VariableError) Error() string {
	return fmt.Sprintf("invalid $%s %q: %s", e.Name, e.Value, e.Remedy)
}

// Read reads the environment. The settings are nil if no spans are exported: without an endpoint, and
// without $OTEL_TRACES_EXPORTER=otlp. It fails with a [*VariableError].
func Read(getenv func(string) string) (*Settings, error) {
	if strings.EqualFold(getenv(envDisabled), "true") {
		return nil, nil //nolint:nilnil // no spans
	}
	hasEndpoint := getenv(envTracesEndpoint)+getenv(envEndpoint) != ""
	switch exporter := getenv(envExporter); {
	case exporter == "none", exporter == "" && !hasEndpoint:
		return nil, nil //nolint:nilnil // no spans
	case exporter != "" && exporter != "otlp":
		return nil, &VariableError{envExporter, exporter, "give otlp, or none"}
	}
	for _, name := range [...]string{envTracesEndpoint, envEndpoint} {
		given := getenv(name)
		if u, err := url.Parse(given); given != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return nil, &VariableError{name, given, "give a URL, http://127.0.0.1:4318 for instance"}
		}
	}
	s := &Settings{protocol: protocolHTTP}
	for _, name := range [...]string{envTracesProtocol, envProtocol} {
		if given := getenv(name); given != "" {
			if s.protocol = given; given != protocolHTTP && given != protocolGRPC {
				return nil, &VariableError{name, given, "give " + protocolHTTP + " or " + protocolGRPC}
			}
			break
		}
	}
	return s, nil
}

// Open makes spans by settings; nil makes none. The log has why spans could not be exported.
func (s *Settings) Open(ctx context.Context, log *slog.Logger) (*Spans, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // it makes no spans
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.WarnContext(context.WithoutCancel(ctx), "spans were not exported", "error", err) }))
	var to sdk.SpanExporter
	var err error
	if s.protocol == protocolGRPC {
		to, err = otlptracegrpc.New(ctx)
	} else {
		to, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	return New(ctx, to)
}
