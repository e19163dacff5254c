package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/service/server"
)

// A client that watches health, or keeps a stream of reflection open, does not hold up the end of the service. The
// first is told that the service drains, and both streams end when the wait is over.
func TestStreamsEndInADrain(t *testing.T) {
	serve(t, server.Options{Register: register, DrainWait: 5 * time.Second, DrainTime: time.Minute}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		watch, err := healthpb.NewHealthClient(conn).Watch(r.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			r.Fatal(err)
		}
		reflected, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		is := func(want healthpb.HealthCheckResponse_ServingStatus) {
			r.Helper()
			if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
				r.Errorf("health: %v, %v, want %v", got, err, want)
			}
		}
		is(healthpb.HealthCheckResponse_SERVING)
		ask := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
		if err := reflected.Send(ask); err != nil {
			r.Error(err)
		}
		if got, err := reflected.Recv(); err != nil || !strings.Contains(got.String(), "envoy.service.ratelimit.v3.RateLimitService") {
			r.Errorf("%v, %v", got, err)
		}
		synctest.Wait()
		r.stop()
		is(healthpb.HealthCheckResponse_NOT_SERVING)
		began := time.Now()
		if _, err := reflected.Recv(); status.Code(err) != codes.Unavailable {
			r.Error(err)
		}
		if _, err := watch.Recv(); err == nil {
			r.Error("the watch goes on")
		}
		if err := <-r.ended; err != nil || time.Since(began) != 5*time.Second {
			r.Errorf("after %v: %v", time.Since(began), err)
		}
		close(r.ended)
	})
}

// Reflection is for those who may call. Health may be watched by everybody.
func TestWhoMayUseReflection(t *testing.T) {
	const roles = "caller-0123456789abc\nreader-0123456789abc reader"
	serve(t, server.Options{Register: register, Guard: guard(t, roles)}, func(r *running) {
		conn := r.proxy(insecure.NewCredentials())
		defer conn.Close()
		for authorization, want := range map[string]codes.Code{"Bearer caller-0123456789abc": codes.OK, "Bearer reader-0123456789abc": codes.PermissionDenied, "": codes.Unauthenticated} {
			ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", authorization)
			reflected, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
			if err != nil {
				r.Fatal(err)
			}
			_ = reflected.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}) // Recv has the error
			if _, err := reflected.Recv(); status.Code(err) != want {
				r.Errorf("%q: %v, want %v", authorization, err, want)
			}
			_ = reflected.CloseSend() // it is over
		}
		watch, err := healthpb.NewHealthClient(conn).Watch(r.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			r.Error(err)
		}
		synctest.Wait()
		if _, text := r.get(r.newClient(r.admin), "/metrics"); !strings.Contains(text, `zae_limiter_service_calls_total{code="OK",path="/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} 1`) {
			r.Error(text)
		}
	})
}
