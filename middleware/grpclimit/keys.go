package grpclimit

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
)

// A Key reads the name of an entity or a resource from a call. An error refuses the call:
// with the error's own gRPC status if it has one, otherwise as the package documentation says.
//
// The name must be valid, see [limiter.Request]. [limiter.EncodeName] makes a valid entity of
// any name. The keys of this package encode what they read.
type Key func(ctx context.Context, call *Call) (string, error)

// Constant is the same name for every call.
func Constant(name string) Key {
	return func(context.Context, *Call) (string, error) { return name, nil }
}

// Metadata is the value of a key of the client's metadata, encoded. A call without it, or with
// several values, is answered INVALID_ARGUMENT.
//
// Use it for metadata that a gateway in front of the server sets and strips from calls.
// Otherwise the client chooses whom its calls count against.
func Metadata(key string) Key {
	key = strings.ToLower(key)
	missing := status.Errorf(codes.InvalidArgument, "the call needs one value of the metadata %s", key)
	return func(ctx context.Context, _ *Call) (string, error) {
		if values := metadata.ValueFromIncomingContext(ctx, key); len(values) == 1 && values[0] != "" {
			return limiter.EncodeName(values[0]), nil
		}
		return "", missing
	}
}

// APIKey is the entity that [httplimit.APIKey] reads from the metadata authorization and
// x-api-key, by the same rules. So an API key has one bucket over HTTP and gRPC. A call without
// one is answered UNAUTHENTICATED.
//
// APIKey does not check the API key: authenticate first. Otherwise a client gets a new, full
// bucket with every key that it makes up.
func APIKey() Key {
	key := httplimit.APIKey()
	return func(ctx context.Context, _ *Call) (string, error) {
		return key(&http.Request{Header: http.Header{
			"Authorization": metadata.ValueFromIncomingContext(ctx, "authorization"),
			"X-Api-Key":     metadata.ValueFromIncomingContext(ctx, "x-api-key"),
		}})
	}
}

// errNoAddr is the answer to a call over something that is not IP.
var errNoAddr = status.Error(codes.InvalidArgument, "the client's address is not known")

// PeerAddr is the address that opened the connection: "192.0.2.1", or the encoded network
// "2001:db8::/64", since one client usually owns all of it. Behind a proxy it is the proxy.
func PeerAddr() Key {
	return func(ctx context.Context, _ *Call) (string, error) {
		p, ok := peer.FromContext(ctx)
		if !ok || p.Addr == nil {
			return "", errNoAddr
		}
		port, err := netip.ParseAddrPort(p.Addr.String())
		if err != nil {
			return "", errNoAddr
		}
		addr := port.Addr().WithZone("").Unmap()
		if addr.Is4() {
			return addr.String(), nil
		}
		return limiter.EncodeName(netip.PrefixFrom(addr, 64).Masked().String()), nil
	}
}

// Unregistered is the resource of all calls of methods that the server has not registered.
const Unregistered = "unregistered"

// Method is [httplimit.ResourceName] of the full name of the method without its first slash:
// "package.Service/Method". A name of more than 64 characters ends with a hash. There are as many
// resources as the server has methods. Every method that it has not registered is
// [Unregistered], so that clients cannot make up resources.
func Method() Key {
	return func(_ context.Context, call *Call) (string, error) {
		if call.Unregistered {
			return Unregistered, nil
		}
		return httplimit.ResourceName(strings.TrimPrefix(call.Method, "/")), nil
	}
}
