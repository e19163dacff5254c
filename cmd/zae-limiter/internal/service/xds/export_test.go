package xds

import (
	"context"
	"errors"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Answer is what a server is told of a response, once the client has it, and why the response is refused; nil
// if it is in use.
func (c *Client) Answer(response *discovery.DiscoveryResponse) (*discovery.DiscoveryRequest, error) {
	answer := c.take(context.Background(), response)
	if c.refusal != "" {
		return answer, errors.New(c.refusal)
	}
	return answer, nil
}
