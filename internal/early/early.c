#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

static void interrupted(int s)
{
	static const char line[] = "weft: interrupted\n";
	if (write(STDERR_FILENO, line, strlen(line)) < 0) {} // there is nobody else to tell
	_exit(130);
}

static void before_go(void)
{
	struct sigaction answer = {.sa_handler = interrupted, .sa_flags = SA_ONSTACK};
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++) {
		struct sigaction inherited;
		if (!sigaction(asked[i], NULL, &inherited) && inherited.sa_handler == SIG_DFL) sigaction(asked[i], &answer, NULL);
	}
	sigset_t later;
	sigemptyset(&later);
	sigaddset(&later, SIGUSR1);
	sigprocmask(SIG_BLOCK, &later, NULL);
}

// The loader calls it before the initialisers of the libraries, and these before Go's runtime.
__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = before_go;
