package hot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ReadFiles reads files by their names.
func ReadFiles(names ...string) (Files, error) {
	files := Files{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	return files, nil
}

// ReadYAML reads a file, or the files of a folder that end in .yaml or .yml. Hidden files, and
// those of folders below, do not count: a mounted ConfigMap has both.
func ReadYAML(path string) (Files, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return ReadFiles(path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		file := filepath.Join(path, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() { // of a mounted file, what the link leads to
			continue
		}
		names = append(names, file)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no file that ends in .yaml or .yml", path)
	}
	return ReadFiles(names...)
}
