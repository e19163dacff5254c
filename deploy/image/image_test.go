package main_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

const (
	nobody = 65532
	data   = "/var/lib/zae-limiter"
	// confined has the root of a container, for the process that TestMain becomes.
	confined = "IMAGE_TEST_ROOT"
)

// TestMain runs the tests, or becomes a container's process: the image is its root, and may not be written to.
func TestMain(m *testing.M) {
	root := os.Getenv(confined)
	if root == "" {
		m.Run()
		return
	}
	volume := root + data
	err := errors.Join(
		syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount(root, root, "", syscall.MS_BIND, ""),
		syscall.Mount(volume, volume, "", syscall.MS_BIND, ""),
		syscall.Mount("", root, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""),
		syscall.Chroot(root), os.Chdir("/"),
		syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody),
	)
	if err == nil && os.WriteFile("/written", nil, 0o600) == nil {
		err = errors.New("the root can be written to")
	}
	if err == nil {
		err = syscall.Exec(os.Args[1], os.Args[1:], nil)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// confines reports whether the user may give a process another root: with it, the image is all that there is.
var confines = sync.OnceValue(func() bool {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return os.Getuid() == 0 && cmd.Run() == nil
})

// contain returns the command of the image with these arguments, as a container's runtime would start it. Who
// may not start one runs its program among the files of the machine.
func contain(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	if !confines() {
		t.Log("not confined: that needs root, and the right to mount")
		for i, arg := range args {
			if strings.HasPrefix(arg, data) {
				args[i] = root + arg
			}
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "zae-limiter"), args...)
		cmd.Env = []string{}
		return cmd
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append([]string{"/zae-limiter"}, args...)...)
	cmd.Env = []string{confined + "=" + root}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// run runs a command and returns what it prints.
func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", cmd, err, out, problems.String())
	}
	return strings.TrimSpace(string(out))
}

// built builds the image of the repository's commit in a clone of it, and returns its digest and its folder.
func built(t *testing.T, tool string, env ...string) (digest, folder string) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	run(t, exec.CommandContext(t.Context(), "git", "clone", "--quiet", "--shared", "../..", clone))
	folder = filepath.Join(t.TempDir(), "image")
	cmd := exec.CommandContext(t.Context(), tool, "-root", clone, "-out", folder)
	cmd.Env = append(os.Environ(), env...)
	return run(t, cmd), folder
}

// The same commit gives the same image in other folders, in another time zone and with other settings of Go.
func TestTheImage(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "image")
	run(t, exec.CommandContext(t.Context(), "go", "build", "-o", tool, "."))
	digest, folder := built(t, tool, "TZ=UTC")
	again, _ := built(t, tool, "TZ=Asia/Tokyo", "GOFLAGS=-buildvcs=false -tags=other", "CGO_ENABLED=1", "GOAMD64=v3")
	if digest != again {
		t.Errorf("two builds of a commit are %s and %s", digest, again)
	}
	cmd := exec.CommandContext(t.Context(), tool, "-root", "../..", "-out", t.TempDir())
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "is not the layout of an image") {
		t.Errorf("a folder with something else is replaced: %v %s", err, out)
	}

	images := imagesOf(t, folder)
	t.Run("config", func(t *testing.T) {
		for arch, image := range images {
			checkConfig(t, arch, image)
		}
	})
	t.Run("push", func(t *testing.T) { push(t, folder, digest) })
	for arch, image := range images {
		root := unpack(t, image)
		t.Run("bill of materials of "+arch, func(t *testing.T) { checkBill(t, root, arch) })
		if machine := run(t, exec.CommandContext(t.Context(), "go", "env", "GOHOSTARCH")); arch == machine {
			t.Run("serves", func(t *testing.T) { serve(t, root) })
		}
	}
}

// imagesOf reads the images of a layout by architecture.
func imagesOf(t *testing.T, folder string) map[string]v1.Image {
	t.Helper()
	outer, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	top, err := outer.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("the layout has other than one image: %+v, %v", top, err)
	}
	index, err := outer.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, m := range list.Manifests {
		if m.Platform == nil || m.Platform.OS != "linux" {
			t.Errorf("%s is for %+v", m.Digest, m.Platform)
			continue
		}
		if images[m.Platform.Architecture], err = index.Image(m.Digest); err != nil {
			t.Fatal(err)
		}
	}
	if len(images) != 2 || images["amd64"] == nil || images["arm64"] == nil {
		t.Fatalf("the image is for %v", images)
	}
	return images
}

func checkConfig(t *testing.T, arch string, image v1.Image) {
	t.Helper()
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if file.OS != "linux" || file.Architecture != arch || c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/zae-limiter" {
		t.Errorf("%s: %+v", arch, file)
	}
	revision := run(t, exec.CommandContext(t.Context(), "git", "rev-parse", "HEAD"))
	for label, want := range map[string]string{"revision": revision, "source": "https://github.com/zeroae/zae-limiter-go", "licenses": "MIT"} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("%s: the label %s is %q, want %q", arch, label, got, want)
		}
	}
	if at := run(t, exec.CommandContext(t.Context(), "git", "log", "-1", "--format=%ct")); strconv.FormatInt(file.Created.Unix(), 10) != at {
		t.Errorf("%s: created at %v, want the time of the commit, %s", arch, file.Created, at)
	}
}

// unpack writes the files of an image to a folder, with their owners.
func unpack(t *testing.T, image v1.Image) (root string) {
	t.Helper()
	root = t.TempDir()
	for at := root; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // nobody must reach it
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return root
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, 0o644)
			}
		}
		if confines() {
			err = errors.Join(err, os.Chown(name, h.Uid, h.Gid))
		}
		if err := errors.Join(err, os.Chmod(name, h.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBill compares the bill of materials with what the binary records.
func checkBill(t *testing.T, root, arch string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "zae-limiter.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(filepath.Join(root, "zae-limiter"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, c := range *bom.Components {
		listed[c.Name] = c.Version
		if !strings.HasPrefix(c.PackageURL, "pkg:golang/"+c.Name+"@") || strings.Contains(c.PackageURL, "(") {
			t.Errorf("%s has the URL %s", c.Name, c.PackageURL)
		}
	}
	if len(listed) != len(info.Deps)+1 || listed["std"] != strings.TrimPrefix(info.GoVersion, "go") {
		t.Errorf("the bill lists %d modules and std %s, the binary has %d of %s", len(listed)-1, listed["std"], len(info.Deps), info.GoVersion)
	}
	for _, m := range info.Deps {
		if m.Replace == nil && listed[m.Path] != m.Version && m.Version != "(devel)" {
			t.Errorf("%s is %q, want %s", m.Path, listed[m.Path], m.Version)
		}
	}
	for _, s := range info.Settings {
		if s.Key == "GOARCH" && s.Value != arch || s.Key == "CGO_ENABLED" && s.Value != "0" || s.Key == "vcs.modified" && s.Value != "false" {
			t.Errorf("%s is built with %s=%s", arch, s.Key, s.Value)
		}
	}
}

// push pushes the layout to a registry with the command of docs/containers.md.
func push(t *testing.T, folder, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/zae-limiter:1"
	run(t, exec.CommandContext(t.Context(), "go", "tool", "crane", "push", folder, to))
	if got := run(t, exec.CommandContext(t.Context(), "go", "tool", "crane", "digest", to)); got != digest {
		t.Errorf("the registry has %s, and the image is %s", got, digest)
	}
}

// serve runs the image as a container does: nobody, with a root that nobody can write to, and a volume.
func serve(t *testing.T, root string) {
	t.Helper()
	local := data + "/limits"
	run(t, contain(t, root, "table", "create", "--local", local))
	run(t, contain(t, root, "system", "set-defaults", "--local", local, "-l", "rpm:2/min"))
	if zones := run(t, contain(t, root, "version", "-o", "json")); !strings.Contains(zones, "built in") {
		t.Errorf("the image has no time zones: %s", zones)
	}
	cmd := contain(t, root, "serve", "--local", local, "--http", "127.0.0.1:0", "--drain-wait", "0s", "-o", "json")
	var printed bytes.Buffer
	cmd.Stderr = &printed
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the service ends with %v\n%s", err, printed.String())
		}
	}()
	var at struct {
		Endpoint string `json:"endpoint"`
	}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&at); err != nil {
		t.Fatalf("%v\n%s", err, printed.String())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil || confines() && !strings.Contains(string(status), "\nUid:\t65532\t65532\t") {
		t.Errorf("the service runs as another user: %v\n%s", err, status)
	}
	const call = `{"entity_id":"key-1","resource":"gpt-4","consume":{"rpm":1}}`
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := do(t, http.MethodPost, at.Endpoint+"/v1/acquire", call); got != want {
			t.Errorf("an acquire is answered with %d, want %d", got, want)
		}
	}
	if got := do(t, http.MethodGet, at.Endpoint+"/livez", ""); got != http.StatusOK {
		t.Errorf("/livez answers %d", got)
	}
}

func do(t *testing.T, method, url, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close() // its status is enough
	return answer.StatusCode
}
