package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile writes a file whole or not at all, with the permissions of other new files. An
// existing file is replaced only with force.
func WriteFile(path string, content []byte, force bool) (err error) {
	if _, err := os.Lstat(path); err == nil && !force {
		return fmt.Errorf("write %s: the file exists already: give --force to replace it", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	const readable = 0o644
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(readable), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
