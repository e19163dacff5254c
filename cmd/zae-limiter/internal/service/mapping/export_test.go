package mapping

import (
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"go.yaml.in/yaml/v4"
)

// FileOf is the file with the content of a message.
func FileOf(m *ratelimit.RateLimitConfig) ([]byte, error) {
	root := documentOf(m)
	quote(root)
	return yaml.Marshal(root)
}

// quote writes all strings in quotes, so that none is read as another value.
func quote(n *yaml.Node) {
	if n.Tag == "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, below := range n.Content {
		quote(below)
	}
}
