package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/datasets"
	"weft/kernel"
)

func newDoctor() *cobra.Command {
	return &cobra.Command{
		Use:     "doctor",
		Short:   "say what this machine has and what would help",
		Long:    "doctor prints what weft finds on this machine, one line each, with a word of advice where something could be better.",
		Example: "  weft doctor",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := newTable(cmd.OutOrStdout())
			for _, finding := range findings() {
				t.row(finding.what, finding.found, finding.advice)
			}
			t.flush()
			return nil
		},
	}
}

// finding is a line of doctor.
type finding struct{ what, found, advice string }

func findings() []finding {
	return []finding{
		{"weft", version + ", " + runtime.Version(), ""},
		findCores(), findSIMD(), findMemory(), findDenseLibrary(), findDebianLists(), findData(),
	}
}

func findCores() finding {
	f := finding{what: "cores", found: fmt.Sprint(runtime.NumCPU())}
	if model := procEntry("/proc/cpuinfo", "model name"); model != "" {
		f.found += ", " + model
	}
	if usable := runtime.GOMAXPROCS(0); usable < runtime.NumCPU() {
		f.advice = fmt.Sprintf("a quota or GOMAXPROCS leaves %d of them: ask for more cores to train faster", usable)
	} else {
		f.advice = "a run uses all; --threads N leaves some to others"
	}
	return f
}

func findSIMD() finding {
	f := finding{what: "SIMD", found: kernel.SIMD()}
	switch f.found {
	case "avx512":
		f.advice = "the fastest level"
	case "avx2":
		f.advice = "good; a processor with AVX-512 would be faster"
	default:
		f.advice = "several times slower than with AVX2: take another machine if you can"
	}
	if forced := os.Getenv("WEFT_SIMD"); forced != "" {
		f.advice += "; WEFT_SIMD=" + forced + " is set"
	}
	return f
}

func findMemory() finding {
	total, free := procBytes("/proc/meminfo", "MemTotal"), procBytes("/proc/meminfo", "MemAvailable")
	f := finding{what: "memory", found: fmt.Sprintf("%s, %s available", megabytes(total), megabytes(free))}
	if limit := memoryLimit(); limit > 0 && limit < total {
		f.found += ", limited to " + megabytes(limit)
	}
	f.advice = "weft train --explain says what a run needs; --memory-limit refuses one that needs more"
	return f
}

// findDenseLibrary looks for oneDNN among the libraries mapped into this process.
func findDenseLibrary() finding {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return finding{"dense products", "not known: " + err.Error(), ""}
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.Index(line, "/"); i >= 0 && strings.Contains(line[i:], "libdnnl.so") {
			return finding{"dense products", "oneDNN, " + strings.TrimSpace(line[i:]), ""}
		}
	}
	return finding{"dense products", "oneDNN is not linked", "apt-get install libdnnl-dev, then build again"}
}

func findDebianLists() finding {
	for _, d := range datasets.All() {
		if d.Name == "debian" && d.Missing() != "" {
			return finding{"package index", "none", d.Missing() + ", to train on it: weft train debian"}
		}
	}
	return finding{"package index", "here", "weft train debian trains on it"}
}

func findData() finding {
	folder := os.Getenv("WEFT_DATA")
	if folder == "" {
		return finding{"published datasets", "WEFT_DATA is not set", "weft datasets says which files it should hold"}
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return finding{"published datasets", "WEFT_DATA=" + folder + " is no folder", "set it to the folder with their files"}
	}
	return finding{"published datasets", filepath.Clean(folder), "weft datasets says which are there"}
}
