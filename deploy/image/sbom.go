package main

import (
	"bytes"
	"debug/buildinfo"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom lists the modules that a binary records, the standard library included, in CycloneDX. It has no serial number, which
// would differ between builds of the same commit.
func sbom(binary string, from commit) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	program := component(cyclonedx.ComponentTypeApplication, info.Main.Path, info.Main.Version)
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	names := []string{parts[0].BOMRef}
	for _, m := range info.Deps {
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m.Path, moduleVersion(m, info)))
		names = append(names, parts[len(parts)-1].BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: from.at.Format(time.RFC3339), Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &names}}
	var text bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return text.Bytes(), err
}

// moduleVersion is the version of a dependency. The library of the repository has that of the program, whose commit it is of.
func moduleVersion(m *debug.Module, info *debug.BuildInfo) string {
	if m.Version == "(devel)" || m.Replace != nil {
		return info.Main.Version
	}
	return m.Version
}

// component describes a module.
func component(kind cyclonedx.ComponentType, module, version string) cyclonedx.Component {
	url := "pkg:golang/" + module + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: module, Version: version, PackageURL: url}
}
