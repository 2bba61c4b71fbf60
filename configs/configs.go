// Package configs holds what weft ships as files: settings of publications, for weft train --config, and
// machines with cards, for weft plan --machine.
package configs

import (
	"embed"
	"strings"
)

//go:embed *.yaml machines/*.yaml
var files embed.FS

// Names are those of the configurations, ascending, such as cora-gcn.
func Names() []string { return namesIn(".") }

// Machines are the names of the machines, ascending, such as h100x8.
func Machines() []string { return namesIn("machines") }

// namesIn are those of the files in a folder.
func namesIn(folder string) (names []string) {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".yaml"); is {
			names = append(names, name)
		}
	}
	return names
}

// Read returns the YAML of a configuration; found is false where none has that name.
func Read(name string) (text []byte, found bool) {
	text, err := files.ReadFile(name + ".yaml")
	return text, err == nil
}

// Machine returns the YAML of a machine; found is false where none has that name.
func Machine(name string) (text []byte, found bool) { return Read("machines/" + name) }
