// Package configs holds the configurations that weft ships: settings of publications, for weft train
// --config.
package configs

import (
	"embed"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names are those of the configurations, ascending, such as cora-gcn.
func Names() (names []string) {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Read returns the YAML of a configuration; found is false where none has that name.
func Read(name string) (text []byte, found bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}
