package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Unread is the error of opening or reading a file that the command line names: what the
// file is for, and a [UsageError], because nothing was sent.
func Unread(what string, err error) error { return Usagef("read %s: %w", what, err) }

// WriteFile writes a file whole or not at all: it writes another file beside it, brings that
// to disk, and gives it the name. So a disk that is full, or a process that is killed, leaves
// the file that was there. A killed process may leave the other file, whose name begins with
// a dot.
//
// An existing file is replaced only with force. It keeps its permissions, and a link to it
// stays a link. A device or a pipe cannot be replaced: the content goes into it.
func WriteFile(path string, content []byte, force bool) error {
	if err := writeFile(path, content, force); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

var errExists = errors.New("the file exists already: give --force to replace it")

func writeFile(path string, content []byte, force bool) error {
	const readable = 0o644
	mode := fs.FileMode(readable)
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("it is a directory: name a file")
	case err == nil && !info.Mode().IsRegular():
		return writeInto(path, content)
	case err == nil && !force:
		return errExists
	case err == nil:
		mode = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return replace(path, content, mode)
}

// replace gives a new file the name of another, which may exist.
func replace(path string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// writeInto writes into a device or a pipe.
func writeInto(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
