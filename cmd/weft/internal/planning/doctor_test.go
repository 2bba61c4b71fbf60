package planning

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"weft/cmd/weft/internal/ui"
	"weft/cmd/weft/internal/ui/uitest"
	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestAdvice: each threshold, on both of its sides. Advice fits its column.
func TestAdvice(t *testing.T) {
	speedup := func(all float64) rate { return rate{1, all} }
	free, hyperthreads := hindrance{perCore: 1}, hindrance{perCore: 2}
	quota := hindranceOf(coresFinding{}, quotaFinding{1, 2}, loadFinding{State: "busy"})
	busy := hindranceOf(coresFinding{}, quotaFinding{2, 2}, loadFinding{State: "shared"})
	advice := func(f finding) string {
		_, advice := f.describe()
		return advice
	}
	load := func(average float64, cores int) string {
		f := findLoad(uitest.System(t, map[string]string{"proc/loadavg": fmt.Sprint(average, " 1")}), cores)
		return f.State + ": " + advice(f)
	}
	dense := func(r rate, threads int, h hindrance) string {
		return multiplying(r, threads, h).judge(r, threads, h)
	}
	const library, launcher, srun = "/lib/libmpi.so.40", "/usr/bin/mpirun", "/usr/bin/srun"
	for _, c := range []struct{ got, want string }{
		{advice(coresFinding{Online: 8, Allowed: 8, Threads: 8, PerCore: 1}), "a run uses all"},
		{advice(coresFinding{Online: 8, Allowed: 8, Threads: 8}), "a run uses all"},
		{
			advice(coresFinding{Online: 8, Allowed: 8, Threads: 8, PerCore: 2}),
			"2 threads share a core: --threads 4 ",
		},
		{advice(coresFinding{Online: 8, Allowed: 4, Threads: 4, PerCore: 2}), "this process may use 4"},
		{
			advice(coresFinding{Online: 8, Allowed: 8, Threads: 3}),
			"a run takes 3 of them, because of the quota",
		},
		{
			advice(coresFinding{Online: 8, Allowed: 8, Threads: 3, chosen: true}),
			"a run takes 3 of them: unset GOMAXPROCS",
		},

		{advice(quotaFinding{0, 4}), "nothing limits"},
		{advice(quotaFinding{4, 4}), "enough"},
		{advice(quotaFinding{3.5, 4}), "4 threads are held back: --threads 3 "},
		{advice(quotaFinding{0.5, 2}), "2 threads are held back: --threads 1 "},

		{load(0.9, 2), "idle: idle"},
		{load(1, 2), "shared: others"},
		{load(1.99, 2), "shared: others"},
		{load(2, 2), "busy: busy"},

		{advice(numaFinding{0}), ""},
		{advice(numaFinding{1}), "all memory"},
		{advice(numaFinding{2}), "numactl"},

		{advice(simdFinding{Level: "avx512"}), "the fastest"},
		{advice(simdFinding{Level: "avx2"}), "good"},
		{advice(simdFinding{Level: "portable"}), "several times slower"},
		{advice(simdFinding{Level: "portable", Forced: true}), "unset WEFT_SIMD"},

		{advice(productsFinding{By: "amx"}), "products take less time"},
		{advice(productsFinding{By: "avx512_bf16"}), "products take less time"},
		{advice(productsFinding{By: "f32"}), "--precision bf16 saves memory"},
		{advice(productsFinding{By: "f32", Forced: true}), "unset WEFT_BF16"},

		{advice(hugePagesFinding{""}), ""},
		{advice(hugePagesFinding{"always"}), "weft asks"},
		{advice(hugePagesFinding{"madvise"}), "weft asks"},
		{advice(hugePagesFinding{"never"}), "as root write madvise"},

		{streaming.judge(speedup(1), 1, busy), "what row-wise kernels"},
		{streaming.judge(speedup(1.5), 2, busy), "row-wise kernels get faster"},
		{streaming.judge(speedup(1.49), 2, free), "threads share the memory"},
		{streaming.judge(speedup(1.49), 2, busy), "others use the cores"},
		{streaming.judge(speedup(1.19), 2, free), "one thread fills"},
		{gathering.judge(speedup(1), 1, free), "what aggregation"},
		{gathering.judge(speedup(6), 8, free), "aggregation gets faster"},
		{gathering.judge(speedup(5.9), 8, free), "memory holds aggregation back"},
		{gathering.judge(speedup(5.9), 8, quota), "the CPU quota"},
		{gathering.judge(speedup(1.1), 8, free), "aggregation over a large graph gains nothing"},

		{dense(speedup(1), 1, free), "more cores"},
		{dense(speedup(1.5), 2, hyperthreads), "dense layers get faster"},
		{dense(speedup(1.49), 2, free), "threads share cores or a slower clock"},
		{dense(speedup(1.49), 2, busy), "others use the cores"},
		{dense(speedup(1.1), 2, quota), "the CPU quota"},
		{dense(speedup(1.1), 2, free), "cores are shared (hyperthreads?): --threads 1 "},
		{dense(speedup(65), 128, hyperthreads), "hyperthreads share cores: --threads 64 "},

		{advice(mpiFinding{}), "no launcher for several processes"},
		{advice(mpiFinding{Library: library}), "no launcher for several processes"},
		{advice(mpiFinding{Processes: 1024}), "no library loads, weft refuses"},
		{advice(mpiFinding{Launcher: launcher}), "several processes need its library"},
		{advice(mpiFinding{Library: library, Launcher: launcher}), "processes: mpirun -n 4"},
		{advice(mpiFinding{Library: library, Processes: 1024}), "1,024 ranks"},

		{advice(slurmFinding{}), ""},
		{advice(slurmFinding{Launcher: srun}), "no library of MPI loads: srun -n 1"},
		{advice(slurmFinding{Launcher: srun, Connect: "--mpi=pmi2"}), "srun -n 4 --mpi=pmi2 weft"},
		{advice(slurmFinding{Job: "7", Tasks: 4}), "no library of MPI loads: srun -n 1"},
		{
			advice(slurmFinding{Job: "7", Tasks: 1024, Connect: "--mpi=pmix"}),
			"srun --mpi=pmix weft train --parallel graph=1024",
		},
		{advice(slurmFinding{Job: "7", Tasks: 1}), "with --signal=USR1@60"},
	} {
		if !strings.HasPrefix(c.got, c.want) || c.want == "" && c.got != "" {
			t.Errorf("advice %q, want %q", c.got, c.want)
		}
		if n := utf8.RuneCountInString(c.got); n > adviceWidth {
			t.Errorf("%d characters, more than %d: %q", n, adviceWidth, c.got)
		}
	}
}

func TestSystemLists(t *testing.T) {
	for list, want := range map[string]int{
		"0": 1, "0-1": 2, "0-3,8,10-11": 7, "": 0, "x": 0,
		"3-1": 0, "0-": 0,
	} {
		assert.Equal(t, want, listLength(list), "%q", list)
	}
	for choices, want := range map[string]string{
		"always [madvise] never": "madvise", "[always] madvise never": "always",
		"always madvise [never]": "never", "": "", "always": "", "[": "",
	} {
		assert.Equal(t, want, bracketed(choices), "%q chooses", choices)
	}
}

func TestLauncherVersion(t *testing.T) {
	for output, want := range map[string]string{
		"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/":               "mpirun (Open MPI) 4.1.4",
		"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: Thu": "HYDRA 4.0.2",
		"": "",
	} {
		assert.Equal(t, want, launcherVersion(output), "%q", output)
	}
}

// TestFindingsOfASystem: doctor finds what files say, and says what is missing.
func TestFindingsOfASystem(t *testing.T) {
	average := 3.25
	full := uitest.System(t, map[string]string{
		"proc/meminfo":        "MemTotal:  4000000 kB\nMemAvailable: 1000000 kB\n",
		"proc/loadavg":        "3.25 1.00 0.50 1/84 28829\n",
		"proc/self/mountinfo": uitest.MountVersion2, "proc/self/cgroup": "0::/\n",
		"sys/fs/cgroup/memory.max":       "2000000000\n",
		"sys/devices/system/node/online": "0-1\n", "sys/devices/system/cpu/online": "0-4095\n",
		"sys/" + hugePagesFile: "always madvise [never]\n",
		"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0,64\n",
	})
	small := uitest.System(t, map[string]string{
		"proc/meminfo":        "MemTotal:  4000000 kB\nMemAvailable: 1000000 kB\n",
		"proc/self/mountinfo": uitest.MountVersion2, "proc/self/cgroup": "0::/\n",
		"sys/fs/cgroup/memory.max": "60000000\n", "proc/self/status": "VmRSS:\t 40000 kB\n",
	})
	for _, c := range []struct{ got, want any }{
		{findMemory(small).usable(), int64(60000000 - 40000<<10)},
		{findLoad(full, 4096), loadFinding{&average, "idle"}},
		{findMemory(full).Limit, int64(2000000000)},
		{findMemory(full).usable(), int64(1000000 << 10)},
		{listLength(systemFile(full, nodesFile)), 2},
		{bracketed(systemFile(full, hugePagesFile)), "never"},
		{findCores(full).Online, 4096},
		{findCores(full).PerCore, 2},
	} {
		assert.Equal(t, c.want, c.got)
	}
	empty := t.TempDir()
	for _, f := range []finding{
		findLoad(empty, 1), findMemory(empty),
		numaFinding{listLength(systemFile(empty, nodesFile))},
		hugePagesFinding{bracketed(systemFile(empty, hugePagesFile))},
	} {
		if found, _ := f.describe(); !strings.HasPrefix(found, "not known: no /") {
			t.Errorf("%T without files: %q", f, found)
		}
	}
	if f := findCores(empty); f.Online < 1 || f.Processor != "" {
		t.Errorf("%+v", f)
	}
	if got := findMemory(empty).usable(); got <= 0 {
		t.Errorf("%d bytes to use", got)
	}
}

// TestCards: every card is found, with its rates, or why there is none.
func TestCards(t *testing.T) {
	devicetest.Library(t)
	t.Setenv("ON_CPU_CARDS", "0")
	found, _ := findCards().describe()
	assert.Equal(t, "none: no card is visible on this machine: look at nvidia-smi and CUDA_VISIBLE_DEVICES", found)
	t.Setenv("ON_CPU_CARDS", "2")
	f := findCards()
	assert.Equal(t, 2, len(f.Cards))
	c := f.Cards[1]
	for _, rate := range []*float64{&c.ToDevice, &c.ToHost, &c.PinnedTo, &c.PinnedFrom} {
		if !(*rate > 1e6) {
			t.Errorf("%v bytes a second in %+v", *rate, c)
		}
		*rate = 0
	}
	assert.Equal(t, cardFinding{
		Name: "CPU in place of a GPU", Driver: "13.0", Total: 8e9, Free: 8e9, Capability: "9.0",
	}, c)
	found, advice := f.describe()
	assert.Contains(t, found, "CPU in place of a GPU, 8.0 GB, CUDA 13.0; ")
	assert.Contains(t, found, " back, of pinned memory ")
	assert.Contains(t, found, "; 1 more")
	assert.Equal(t, "weft train --device cuda --parallel graph=2 computes on all", advice)
	_, advice = cardsFinding{Cards: f.Cards[:1]}.describe()
	assert.Equal(t, "weft train --device cuda computes on it", advice)
}

// TestPrintFinding: advice is in its column, or below a line that is too wide.
func TestPrintFinding(t *testing.T) {
	wide := strings.Repeat("x", foundWidth+1)
	nodes, published := check{what: "NUMA nodes"}, check{what: "published datasets"}
	for _, c := range []struct {
		line line
		want string
	}{
		{line{check: nodes, found: "1", advice: "fine"}, "NUMA nodes" + strings.Repeat(" ", 10) + "1" +
			strings.Repeat(" ", 49) + "fine\n"},
		{line{check: nodes, found: "1"}, "NUMA nodes" + strings.Repeat(" ", 10) + "1\n"},
		{line{check: published, found: wide, advice: "fine"}, "published datasets  " + wide + "\n" +
			strings.Repeat(" ", 70) + "fine\n"},
	} {
		var out bytes.Buffer
		c.line.Print(&out)
		assert.Equal(t, c.want, out.String())
	}
}

// TestExamine: every finding has its line, in order, and a field for programs. The rates are plausible.
func TestExamine(t *testing.T) {
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "mpirun"), []byte("#!/bin/sh\necho 'mpirun (Open "+
		"MPI) 4.1.4'\n"), 0o777))
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	d := examine("", 1<<20, func(l *line) { l.Print(&out) })
	found := map[string]finding{}
	for _, l := range d {
		found[l.key] = l.finding
	}
	launcher := found["mpi"].(mpiFinding)
	assert.Equal(t, filepath.Join(bin, "mpirun"), launcher.Launcher, "%+v", launcher)
	assert.Equal(t, "mpirun (Open MPI) 4.1.4", launcher.LauncherVersion, "%+v", launcher)
	stream, gather := found["memory_streamed"].(ratesFinding), found["memory_gathered"].(ratesFinding)
	arithmetic := found["dense_arithmetic"].(ratesFinding)
	text := out.String()
	for _, what := range []string{
		"weft", "cores", "CPU quota", "load", "NUMA nodes", "SIMD", "memory", "huge pages",
		"memory, streamed", "memory, gathered",
		"dense arithmetic", "GPU", "dense products", "MPI", "Slurm", "package index", "published datasets",
	} {
		_, rest, found := strings.Cut("\n"+text, "\n"+what+"  ")
		if !found {
			t.Fatalf("no line %q in its place:\n%s", what, out.String())
		}
		text = rest
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line); n > 131 {
			t.Errorf("%d columns: %q", n-1, line)
		}
	}
	for name, rate := range map[string]float64{
		"read": stream.Bytes, "read by one thread": stream.OneBytes, "gather": gather.Bytes,
		"gather by one thread": gather.OneBytes,
		"arithmetic":           arithmetic.Flops, "arithmetic of one thread": arithmetic.OneFlops,
	} {
		if !(rate > 1e6 && rate < 1e16) {
			t.Errorf("%s: %v a second", name, rate)
		}
	}
	var written bytes.Buffer
	require.NoError(t, ui.PrintJSON(&written, d))
	for _, keys := range []string{
		`^\{"weft":\{"version":.*\}\}\n$`,
		`"memory_streamed":\{"threads":[0-9]+,"bytes_per_second":[0-9.e+]+,"one_thread_bytes_per_second":[0-9.e+]+,`,
		`"memory_gathered":\{"threads":[0-9]+,"bytes_per_second":[0-9.e+]+,"one_thread_bytes_per_second":[0-9.e+]+,`,
		`"dense_arithmetic":\{"threads":[0-9]+,"flops_per_second":[0-9.e+]+,"one_thread_flops_per_second":[0-9.e+]+,`,
		`"mpi":\{"launcher":".*/mpirun","launcher_version":"mpirun \(Open MPI\) 4.1.4",("library":".*/lib.*","library_version":"[^"]+"|"not_loaded":"no library of MPI loads)`,
	} {
		if !regexp.MustCompile(keys).Match(written.Bytes()) {
			t.Errorf("%s lacks %s", written.String(), keys)
		}
	}
	var read map[string]map[string]any
	require.NoError(t, json.Unmarshal(written.Bytes(), &read))
	for _, l := range d {
		if l.what == "weft" {
			continue
		}
		if advice, there := read[l.key]["advice"]; !there || advice != l.advice {
			t.Errorf("%s: advice %q, want %q", l.key, advice, l.advice)
		}
	}
}
