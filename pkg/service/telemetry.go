package service

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// Telemetry sets up metrics, which /metrics serves, and traces, which are sent where OTEL_EXPORTER_OTLP_ENDPOINT says;
// without it none are made. The returned function sends what is left.
func Telemetry(ctx context.Context, service string) (stop func(context.Context) error, err error) {
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	about := resource.NewSchemaless(semconv.ServiceName("holdpoint-" + service))
	exporter, err := prometheus.New()
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	meters := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithResource(about))
	otel.SetMeterProvider(meters)
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return meters.Shutdown, nil
	}
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	tracers := trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(about))
	otel.SetTracerProvider(tracers)
	return func(ctx context.Context) error { return errors.Join(tracers.Shutdown(ctx), meters.Shutdown(ctx)) }, nil
}
