package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/calls"
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/kernel"
)

// The linker sets these.
var (
	version = "unknown"
	commit  = "" // the commit that was built
)

// A program made by go install has the version of its module.
func init() {
	if build, ok := debug.ReadBuildInfo(); ok && version == "unknown" &&
		strings.HasPrefix(build.Main.Version, "v") {
		version = strings.TrimPrefix(build.Main.Version, "v")
	}
	cli.Version = version
}

// versions are the parts of which this program is made: the JSON object of `weft version --json`.
type versions struct {
	Weft     string            `json:"weft"`
	Commit   string            `json:"commit,omitempty"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	SIMD     string            `json:"simd"` // the kernels' instruction set on this machine
	OneDNN   string            `json:"onednn"`
	MPI      string            `json:"mpi"`      // the library that loads; empty: none does
	Protocol int               `json:"protocol"` // the version of the protocol with the Python package
	Modules  map[string]string `json:"modules"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version, the commit, and the libraries of weft",
		Args:  cli.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			library, noMPI := mpi.Load()
			v := versions{
				Weft: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS +
					"/" + runtime.GOARCH,
				SIMD: kernel.SIMD(), OneDNN: kernel.OneDNN(), MPI: library.Name, Protocol: calls.Version,
				Modules: map[string]string{},
			}
			build, _ := debug.ReadBuildInfo()
			if build != nil {
				for _, m := range build.Deps {
					v.Modules[m.Path] = m.Version
				}
			}
			if asJSON {
				return ui.PrintJSON(cmd.OutOrStdout(), v)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "weft", v.Weft)
			t := ui.NewTable(cmd.OutOrStdout())
			if v.Commit != "" {
				t.Row("commit", v.Commit)
			}
			t.Row("Go", v.Go+" "+v.Platform)
			t.Row("kernels", v.SIMD+", oneDNN "+v.OneDNN)
			if noMPI != nil {
				t.Row("MPI", "none: "+ui.InOneLine(noMPI.Error()))
			} else {
				t.Row("MPI", library.Name+", "+library.File)
			}
			if build != nil {
				for _, m := range build.Deps {
					t.Row(m.Path, m.Version)
				}
			}
			t.Flush()
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
