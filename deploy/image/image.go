package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user and the group of the process: no other of the machine has the number.
const nobody = 65532

// Paths in the image.
const (
	binaryPath = "/zae-limiter"
	sbomPath   = "/zae-limiter.cdx.json"
	dataPath   = "/var/lib/zae-limiter" // where a volume for --local goes
)

// A commit is what the image is built of.
type commit struct {
	revision string
	at       time.Time
}

// A builder builds the image of a repository's commit.
type builder struct {
	root        string    // folder of the repository
	epoch       string    // seconds since 1970 that replace the time of the commit, or nothing
	environment []string  // of the process
	log         io.Writer // what git and go complain about
}

// build writes the image to a folder, as an OCI layout, and returns the digest of its index.
func (b *builder) build(ctx context.Context, out string, architectures []string) (digest v1.Hash, err error) {
	if _, err := os.Stat(filepath.Join(out, "oci-layout")); err != nil {
		if _, err := os.Stat(out); err == nil {
			return digest, fmt.Errorf("%s is not the layout of an image: give another -out, or remove it", out)
		}
	}
	from, err := b.head(ctx)
	if err != nil {
		return digest, err
	}
	binaries, err := os.MkdirTemp("", "image")
	if err != nil {
		return digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(binaries)) }()
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		binary := filepath.Join(binaries, arch)
		if err := b.compile(ctx, binary, arch); err != nil {
			return digest, err
		}
		image, err := imageOf(binary, arch, from)
		if err != nil {
			return digest, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	annotated, ok := mutate.Annotations(index, labels(from)).(v1.ImageIndex)
	if !ok {
		return digest, errors.New("the annotated index is none")
	}
	if err := os.RemoveAll(out); err != nil {
		return digest, err
	}
	to, err := layout.Write(out, empty.Index)
	if err != nil {
		return digest, err
	}
	if err := to.AppendIndex(annotated); err != nil {
		return digest, err
	}
	return annotated.Digest()
}

// head returns the commit of the repository, with the time that the image gets.
func (b *builder) head(ctx context.Context) (commit, error) {
	git := exec.CommandContext(ctx, "git", "-C", b.root, "log", "-1", "--format=%H %ct")
	git.Stderr = b.log
	text, err := git.Output()
	if err != nil {
		return commit{}, fmt.Errorf("cannot read the commit of %s: %w: build the image in a clone", b.root, err)
	}
	revision, epoch, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	epoch = cmp.Or(b.epoch, epoch)
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: give seconds since 1970", epoch)
	}
	return commit{revision, time.Unix(seconds, 0).UTC()}, nil
}

// compile builds the program, which records its commit.
func (b *builder) compile(ctx context.Context, binary, arch string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", binary, "./cmd/zae-limiter")
	build.Dir = b.root
	// The modules are joined as go.work says, whatever this program was built with.
	build.Env = append(slices.Clone(b.environment), "GOWORK=", "GOFLAGS=", "GOEXPERIMENT=", "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOTOOLCHAIN="+runtime.Version())
	build.Stdout, build.Stderr = b.log, b.log
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build for %s: %w", arch, err)
	}
	return nil
}

// imageOf makes the image of a binary. Every time in it is that of the commit.
func imageOf(binary, arch string, from commit) (v1.Image, error) {
	bill, err := sbom(binary, from)
	if err != nil {
		return nil, err
	}
	content, err := layer(binary, bill, from.at)
	if err != nil {
		return nil, err
	}
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: packed, History: v1.History{Created: v1.Time{Time: from.at}, CreatedBy: "deploy/image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: from.at}
	config.Config = v1.Config{User: fmt.Sprintf("%d:%[1]d", nobody), Entrypoint: []string{binaryPath}, WorkingDir: "/", Labels: labels(from)}
	return mutate.ConfigFile(image, config)
}

// labels are those of https://specs.opencontainers.org/image-spec/annotations.
func labels(from commit) map[string]string {
	const project = "https://github.com/zeroae/zae-limiter-go"
	return map[string]string{
		"org.opencontainers.image.title":         "zae-limiter",
		"org.opencontainers.image.description":   "A distributed rate limiter on DynamoDB: the command and the decision service",
		"org.opencontainers.image.source":        project,
		"org.opencontainers.image.documentation": project + "/blob/main/docs/kubernetes.md",
		"org.opencontainers.image.licenses":      "MIT",
		"org.opencontainers.image.revision":      from.revision,
		"org.opencontainers.image.created":       from.at.Format(time.RFC3339),
	}
}

// layer packs the files of the image in the order of their names.
func layer(binary string, bill []byte, at time.Time) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, entry := range []struct {
		name  string
		mode  int64
		owner int
		text  []byte
	}{
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{dataPath[1:] + "/", 0o750, nobody, nil},
		{binaryPath[1:], 0o755, 0, program},
		{sbomPath[1:], 0o644, 0, bill},
	} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Uid: entry.owner, Gid: entry.owner, Size: int64(len(entry.text)), ModTime: at, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if strings.HasSuffix(entry.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.text); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
