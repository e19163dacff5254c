//go:build !windows

package journal

import (
	"errors"
	"os"
)

// syncDir makes the names in a directory durable. A synced file can still vanish in a loss of power
// if the entry of its directory was not.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
