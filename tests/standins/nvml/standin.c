/* A stand-in for libnvidia-ml.so.1: it answers NVML's C calls from a description file, so that unmodified users of NVML run
 * on a machine without a card. The file is read again whenever it changes: editing it under a running program is a live fault.
 * README.md beside this file gives the description's words; nvml_standin.py builds and drives it. */
#define _GNU_SOURCE
#include <nvml.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_CARDS 32
#define MAX_PROCESSES 32
#define MAX_FAULTS 16
#define MAX_LINKS 18
#define MAX_SLOTS 7 /* for the MIG instances of a card */

typedef struct { unsigned pid, sm; unsigned long long bytes; char kind; int slot; } Process; /* kind: c, g or m; slot -1: no instance */
typedef struct { nvmlReturn_t answer; char call[64]; int slot; } Fault; /* slot -1: of the whole card */
typedef struct { char profile[32], uuid[96]; unsigned long long bytes, used; unsigned gi, ci; } Mig; /* no uuid: the slot is empty */
typedef struct { int link; char peer[32]; } Link;
typedef struct { int peer, level; } Near;

typedef struct {
    char name[96], uuid[96], serial[32], bus[32];
    long long memory, memory_used, memory_reserved, energy, utilisation, memory_utilisation, temperature, power, power_limit,
        fan, sm_clock, memory_clock, max_sm_clock, max_memory_clock, pstate, ecc, ecc_corrected, ecc_uncorrected, persistence,
        compute_major, compute_minor, numa_node, pcie_generation, pcie_width, pcie_tx, pcie_rx, cores, architecture, throttle, minor;
    Process processes[MAX_PROCESSES]; int process_count;
    Fault faults[MAX_FAULTS];         int fault_count;
    Link links[MAX_LINKS];            int link_count;
    Near near[MAX_CARDS];             int near_count;
    Mig migs[MAX_SLOTS];              int mig_mode; /* -1: it cannot be divided */
} Card;

/* What the description's words set; text fields first, then numbers. */
#define OFFSET(field) __builtin_offsetof(Card, field)
static const struct { const char *word; size_t offset, size; } TEXTS[] = {
    {"name", OFFSET(name), 96}, {"uuid", OFFSET(uuid), 96}, {"serial", OFFSET(serial), 32}, {"bus", OFFSET(bus), 32},
};
#define NUMBER(field) {#field, OFFSET(field)}
static const struct { const char *word; size_t offset; } NUMBERS[] = {
    NUMBER(memory), NUMBER(memory_used), NUMBER(memory_reserved), NUMBER(energy), NUMBER(utilisation), NUMBER(memory_utilisation),
    NUMBER(temperature), NUMBER(power), NUMBER(power_limit), NUMBER(fan), NUMBER(sm_clock), NUMBER(memory_clock),
    NUMBER(max_sm_clock), NUMBER(max_memory_clock), NUMBER(pstate), NUMBER(ecc), NUMBER(ecc_corrected), NUMBER(ecc_uncorrected),
    NUMBER(persistence), NUMBER(compute_major), NUMBER(compute_minor), NUMBER(numa_node), NUMBER(pcie_generation),
    NUMBER(pcie_width), NUMBER(pcie_tx), NUMBER(pcie_rx), NUMBER(cores), NUMBER(architecture), NUMBER(throttle), NUMBER(minor),
};
static const struct { const char *word; nvmlReturn_t answer; const char *sentence; } ANSWERS[] = {
    {"success", NVML_SUCCESS, "The operation was successful"},
    {"uninitialized", NVML_ERROR_UNINITIALIZED, "NVML was not first initialized with nvmlInit()"},
    {"invalid_argument", NVML_ERROR_INVALID_ARGUMENT, "A supplied argument is invalid"},
    {"not_supported", NVML_ERROR_NOT_SUPPORTED, "The requested operation is not available on target device"},
    {"no_permission", NVML_ERROR_NO_PERMISSION, "The current user does not have permission for operation"},
    {"not_found", NVML_ERROR_NOT_FOUND, "A query to find an object was unsuccessful"},
    {"insufficient_size", NVML_ERROR_INSUFFICIENT_SIZE, "An input argument is not large enough"},
    {"driver_not_loaded", NVML_ERROR_DRIVER_NOT_LOADED, "NVIDIA driver is not loaded"},
    {"timeout", NVML_ERROR_TIMEOUT, "User provided timeout passed"},
    {"library_not_found", NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library couldn't be found or loaded"},
    {"function_not_found", NVML_ERROR_FUNCTION_NOT_FOUND, "Local version of NVML doesn't implement this function"},
    {"corrupted_inforom", NVML_ERROR_CORRUPTED_INFOROM, "infoROM is corrupted"},
    {"lost", NVML_ERROR_GPU_IS_LOST, "The GPU has fallen off the bus or has otherwise become inaccessible"},
    {"reset_required", NVML_ERROR_RESET_REQUIRED, "The GPU requires a reset before it can be used again"},
    {"operating_system", NVML_ERROR_OPERATING_SYSTEM, "The GPU control device has been blocked by the operating system/cgroups"},
    {"version_mismatch", NVML_ERROR_LIB_RM_VERSION_MISMATCH, "RM detects a driver/library version mismatch"},
    {"unknown", NVML_ERROR_UNKNOWN, "An internal driver error occurred"},
};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Card cards[MAX_CARDS]; /* a handle is a card's index + 1 and, as NVML's, lives as long as the process */
static int card_count, init_count, hang_s;
static nvmlReturn_t init_answer;
static char driver[80], cuda[16];
#define NOT_ASKED 0xFFFFFFFFu
static struct { int card; unsigned gi; unsigned long long xid; } events[64]; /* not told yet, oldest first */
static int event_count;
static struct timespec read_at;
static off_t read_size;

/* ---- the description ---- */

static nvmlReturn_t answer_named(const char *word) {
    for (int i = 0; i < COUNT(ANSWERS); i++)
        if (!strcmp(word, ANSWERS[i].word)) return ANSWERS[i].answer;
    fprintf(stderr, "nvml stand-in: no answer is called '%s'\n", word);
    abort();
}

static Card *new_card(void) {
    if (card_count == MAX_CARDS) { fprintf(stderr, "nvml stand-in: more than %d cards\n", MAX_CARDS); abort(); }
    int i = card_count++;
    Card *card = &cards[i];
    *card = (Card){.name = "NVIDIA A100-SXM4-80GB", .memory = 85899345920LL, .memory_reserved = 600LL << 20, .temperature = 35,
                   .power = 62000, .power_limit = 400000, .fan = -1, .sm_clock = 210, .memory_clock = 1593, .max_sm_clock = 1410,
                   .max_memory_clock = 1593, .ecc = 1, .persistence = 1, .compute_major = 8, .numa_node = -1, .pcie_generation = 4,
                   .pcie_width = 16, .cores = 6912, .architecture = NVML_DEVICE_ARCH_AMPERE, .minor = i};
    card->mig_mode = 0;
    snprintf(card->uuid, sizeof card->uuid, "GPU-5eed0000-0000-4000-8000-%012d", i);
    snprintf(card->bus, sizeof card->bus, "00000000:%02X:00.0", 0x10 + i);
    return card;
}

static void set_on_card(Card *card, const char *word, const char *value) {
    for (int i = 0; i < COUNT(TEXTS); i++)
        if (!strcmp(word, TEXTS[i].word)) { snprintf((char *)card + TEXTS[i].offset, TEXTS[i].size, "%s", value); return; }
    for (int i = 0; i < COUNT(NUMBERS); i++)
        if (!strcmp(word, NUMBERS[i].word)) { *(long long *)((char *)card + NUMBERS[i].offset) = strtoll(value, NULL, 0); return; }
    if (!strcmp(word, "process") && card->process_count < MAX_PROCESSES) { /* PID BYTES compute|graphics|mps [SM% [SLOT]] */
        Process *process = &card->processes[card->process_count];
        char kind[16];
        process->slot = -1;
        if (sscanf(value, "%u %llu %15s %u %d", &process->pid, &process->bytes, kind, &process->sm, &process->slot) >= 3) {
            process->kind = kind[0];
            card->process_count++;
        }
    } else if (!strcmp(word, "fault") && card->fault_count < MAX_FAULTS) { /* ANSWER [queries|FUNCTION] */
        Fault *fault = &card->faults[card->fault_count++];
        char name[32];
        fault->call[0] = 0;
        fault->slot = -1;
        if (sscanf(value, "%31s %63s", name, fault->call) >= 1) fault->answer = answer_named(name);
    } else if (!strcmp(word, "mig_fault") && card->fault_count < MAX_FAULTS) { /* SLOT ANSWER [FUNCTION] */
        Fault *fault = &card->faults[card->fault_count++];
        char name[32];
        fault->call[0] = 0;
        if (sscanf(value, "%d %31s %63s", &fault->slot, name, fault->call) >= 2) fault->answer = answer_named(name);
    } else if (!strcmp(word, "mig")) { /* on | none | SLOT PROFILE UUID BYTES [USED [GI CI]] */
        int slot;
        char profile[32], uuid[96];
        unsigned long long bytes, used = 0;
        unsigned gi = NOT_ASKED, ci = 0;
        card->mig_mode = strcmp(value, "none") ? 1 : -1;
        if (sscanf(value, "%d %31s %95s %llu %llu %u %u", &slot, profile, uuid, &bytes, &used, &gi, &ci) >= 4 && slot >= 0 && slot < MAX_SLOTS) {
            Mig *mig = &card->migs[slot];
            *mig = (Mig){.bytes = bytes, .used = used, .gi = gi == NOT_ASKED ? (unsigned)slot + 1 : gi, .ci = ci};
            strcpy(mig->profile, profile);
            strcpy(mig->uuid, uuid);
        }
    } else if (!strcmp(word, "xid")) { /* NUMBER [GI], told once each time the description is read */
        if (event_count < COUNT(events)) {
            events[event_count].card = card - cards;
            events[event_count].gi = NOT_ASKED;
            sscanf(value, "%llu %u", &events[event_count].xid, &events[event_count].gi);
            event_count++;
        }
    } else if (!strcmp(word, "nvlink") && card->link_count < MAX_LINKS) { /* LINK PEER_BUS */
        Link *link = &card->links[card->link_count];
        if (sscanf(value, "%d %31s", &link->link, link->peer) == 2) card->link_count++;
    } else if (!strcmp(word, "near") && card->near_count < MAX_CARDS) { /* PEER_INDEX LEVEL */
        Near *near = &card->near[card->near_count];
        if (sscanf(value, "%d %d", &near->peer, &near->level) == 2) card->near_count++;
    } else {
        fprintf(stderr, "nvml stand-in: no card field is called '%s'\n", word);
        abort();
    }
}

static void set_on_system(const char *word, const char *value) {
    if (!strcmp(word, "driver")) snprintf(driver, sizeof driver, "%s", value);
    else if (!strcmp(word, "cuda")) snprintf(cuda, sizeof cuda, "%s", value);
    else if (!strcmp(word, "init")) init_answer = answer_named(value);
    else if (!strcmp(word, "hang_s")) hang_s = atoi(value); /* nvmlInit takes that long */
    else { fprintf(stderr, "nvml stand-in: no system field is called '%s'\n", word); abort(); }
}

static void read_description(void) {
    const char *path = getenv("NVML_STANDIN");
    struct stat now;
    if (!path || !*path || stat(path, &now)) { /* as if there were no library */
        card_count = 0;
        init_answer = NVML_ERROR_LIBRARY_NOT_FOUND;
        read_at = (struct timespec){0};
        return;
    }
    if (now.st_mtim.tv_sec == read_at.tv_sec && now.st_mtim.tv_nsec == read_at.tv_nsec && now.st_size == read_size) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    read_at = now.st_mtim;
    read_size = now.st_size;
    card_count = hang_s = 0;
    init_answer = NVML_SUCCESS;
    strcpy(driver, "580.95.05");
    strcpy(cuda, "13000");
    Card *card = NULL;
    for (char line[512]; fgets(line, sizeof line, file);) {
        char word[64], value[400];
        line[strcspn(line, "\r\n#")] = 0;
        if (!strncmp(line, "[card]", 6)) { card = new_card(); continue; }
        if (sscanf(line, " %63[a-z_] = %399[^\n]", word, value) != 2) continue;
        for (size_t n = strlen(value); n && value[n - 1] == ' ';) value[--n] = 0;
        if (card) set_on_card(card, word, value);
        else set_on_system(word, value);
    }
    fclose(file);
}

/* ---- the way into every call ---- */

static nvmlReturn_t fault_of(const Card *card, int slot, const char *call) {
    for (int i = 0; i < card->fault_count; i++) {
        const char *where = card->faults[i].call;
        int is_named = *where && strcmp(where, "queries"); /* then of the whole card it is not of its instances */
        if (card->faults[i].slot != slot && (card->faults[i].slot >= 0 || is_named)) continue;
        int is_query = strncmp(call, "nvmlDeviceGetHandleBy", 21) != 0;
        if (!*where || !strcmp(where, call) || (!strcmp(where, "queries") && is_query)) return card->faults[i].answer;
    }
    return NVML_SUCCESS;
}

/* A handle is a card's index + 1, of an instance INSTANCES * (its slot + 1) more. */
#define INSTANCES 1000
static nvmlReturn_t card_of(nvmlDevice_t device, const char *call, Card **card, int *slot) {
    if (!init_count) return NVML_ERROR_UNINITIALIZED;
    read_description();
    size_t number = (size_t)device % INSTANCES;
    *slot = (int)((size_t)device / INSTANCES) - 1;
    if (!number || number > MAX_CARDS || *slot >= MAX_SLOTS) return NVML_ERROR_INVALID_ARGUMENT;
    if (number > (size_t)card_count) return NVML_ERROR_GPU_IS_LOST; /* it left the description */
    *card = &cards[number - 1];
    if (*slot >= 0 && !*(*card)->migs[*slot].uuid) return NVML_ERROR_INVALID_ARGUMENT; /* it was destroyed */
    return fault_of(*card, *slot, call);
}

#define EXPORT __attribute__((visibility("default")))
#define SYSTEM_CALL(function, parameters, ...)                                                                                 \
    EXPORT nvmlReturn_t function parameters {                                                                                  \
        nvmlReturn_t answer = NVML_SUCCESS;                                                                                    \
        pthread_mutex_lock(&lock);                                                                                             \
        if (!init_count) answer = NVML_ERROR_UNINITIALIZED;                                                                    \
        else { read_description(); __VA_ARGS__; }                                                                              \
        pthread_mutex_unlock(&lock);                                                                                           \
        return answer;                                                                                                         \
    }
/* Of whole cards (slot -1) and of their MIG instances. */
#define ANY_CALL(function, parameters, ...)                                                                                    \
    EXPORT nvmlReturn_t function parameters {                                                                                  \
        Card *card = NULL;                                                                                                     \
        int slot = -1;                                                                                                         \
        pthread_mutex_lock(&lock);                                                                                             \
        nvmlReturn_t answer = card_of(device, #function, &card, &slot);                                                        \
        if (answer == NVML_SUCCESS) { __VA_ARGS__; }                                                                           \
        pthread_mutex_unlock(&lock);                                                                                           \
        return answer;                                                                                                         \
    }
/* Of whole cards alone. */
#define CARD_CALL(function, parameters, ...)                                                                                   \
    ANY_CALL(function, parameters, if (slot >= 0) answer = NVML_ERROR_NOT_SUPPORTED; else { __VA_ARGS__; })
/* Of MIG instances alone. */
#define MIG_CALL(function, parameters, ...)                                                                                    \
    ANY_CALL(function, parameters, if (slot < 0) answer = NVML_ERROR_INVALID_ARGUMENT; else { const Mig *mig = &card->migs[slot]; __VA_ARGS__; })
#define ONLY_IF(condition, ...) if (condition) { __VA_ARGS__; } else answer = NVML_ERROR_NOT_SUPPORTED
#define PUT_TEXT(target, size, source)                                                                                         \
    if (strlen(source) + 1 > (size)) answer = NVML_ERROR_INSUFFICIENT_SIZE; else strcpy(target, source)

static nvmlReturn_t initialise(void) {
    pthread_mutex_lock(&lock);
    read_description();
    nvmlReturn_t answer = init_answer;
    int wait_s = hang_s;
    if (answer == NVML_SUCCESS) init_count++;
    pthread_mutex_unlock(&lock);
    if (wait_s) sleep(wait_s);
    return answer;
}
EXPORT nvmlReturn_t nvmlInit(void) { return initialise(); }
EXPORT nvmlReturn_t nvmlInit_v2(void) { return initialise(); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; return initialise(); }
SYSTEM_CALL(nvmlShutdown, (void), init_count--)
EXPORT const char *nvmlErrorString(nvmlReturn_t answer) {
    for (int i = 0; i < COUNT(ANSWERS); i++)
        if (ANSWERS[i].answer == answer) return ANSWERS[i].sentence;
    return "An internal driver error occurred";
}

/* ---- the system ---- */

SYSTEM_CALL(nvmlSystemGetDriverVersion, (char *text, unsigned size), PUT_TEXT(text, size, driver))
SYSTEM_CALL(nvmlSystemGetNVMLVersion, (char *text, unsigned size),
            char version[96]; snprintf(version, sizeof version, "13.%s", driver); PUT_TEXT(text, size, version))
SYSTEM_CALL(nvmlSystemGetCudaDriverVersion, (int *version), *version = atoi(cuda))
SYSTEM_CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version), *version = atoi(cuda))
SYSTEM_CALL(nvmlSystemGetProcessName, (unsigned pid, char *text, unsigned size),
            char path[64]; snprintf(path, sizeof path, "/proc/%u/comm", pid); FILE *file = fopen(path, "r");
            if (!file) answer = NVML_ERROR_NOT_FOUND;
            else { if (!fgets(text, size, file)) *text = 0; text[strcspn(text, "\n")] = 0; fclose(file); })
SYSTEM_CALL(nvmlDeviceGetCount, (unsigned *count), *count = card_count)
SYSTEM_CALL(nvmlDeviceGetCount_v2, (unsigned *count), *count = card_count)

static nvmlReturn_t handle_at(int index, const char *call, nvmlDevice_t *device) {
    if (index < 0 || index >= card_count) return NVML_ERROR_INVALID_ARGUMENT;
    *device = (nvmlDevice_t)(size_t)(index + 1);
    return fault_of(&cards[index], -1, call);
}
static int index_of_uuid(const char *uuid) {
    for (int i = 0; i < card_count; i++) if (!strcmp(uuid, cards[i].uuid)) return i;
    return -1;
}
static int index_of_bus(const char *bus) { /* the domain has four or eight digits */
    for (int i = 0; i < card_count; i++) {
        const char *a = strchr(bus, ':'), *b = strchr(cards[i].bus, ':');
        if (a && b && !strcasecmp(a, b)) return i;
    }
    return -1;
}
SYSTEM_CALL(nvmlDeviceGetHandleByIndex, (unsigned index, nvmlDevice_t *device), answer = handle_at(index, "nvmlDeviceGetHandleByIndex_v2", device))
SYSTEM_CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned index, nvmlDevice_t *device), answer = handle_at(index, "nvmlDeviceGetHandleByIndex_v2", device))
SYSTEM_CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), int index = index_of_uuid(uuid);
            answer = index < 0 ? NVML_ERROR_NOT_FOUND : handle_at(index, "nvmlDeviceGetHandleByUUID", device))
SYSTEM_CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, nvmlDevice_t *device), int index = index_of_bus(bus);
            answer = index < 0 ? NVML_ERROR_NOT_FOUND : handle_at(index, "nvmlDeviceGetHandleByPciBusId_v2", device))

/* ---- one card: what it is ---- */

CARD_CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned *index), *index = card - cards)
CARD_CALL(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned *minor), *minor = card->minor)
ANY_CALL(nvmlDeviceGetName, (nvmlDevice_t device, char *text, unsigned size),
         char whole[160]; snprintf(whole, sizeof whole, slot < 0 ? "%s" : "%s MIG %s", card->name, card->migs[slot < 0 ? 0 : slot].profile);
         PUT_TEXT(text, size, whole))
ANY_CALL(nvmlDeviceGetUUID, (nvmlDevice_t device, char *text, unsigned size), const char *uuid = slot < 0 ? card->uuid : card->migs[slot].uuid;
         PUT_TEXT(text, size, uuid))
CARD_CALL(nvmlDeviceGetSerial, (nvmlDevice_t device, char *text, unsigned size), ONLY_IF(*card->serial, PUT_TEXT(text, size, card->serial)))
CARD_CALL(nvmlDeviceGetVbiosVersion, (nvmlDevice_t device, char *text, unsigned size), PUT_TEXT(text, size, "92.00.45.00.05"))
CARD_CALL(nvmlDeviceGetBrand, (nvmlDevice_t device, nvmlBrandType_t *brand), *brand = NVML_BRAND_NVIDIA)
CARD_CALL(nvmlDeviceGetArchitecture, (nvmlDevice_t device, nvmlDeviceArchitecture_t *architecture), *architecture = card->architecture)
CARD_CALL(nvmlDeviceGetNumGpuCores, (nvmlDevice_t device, unsigned *count), *count = card->cores)
CARD_CALL(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t device, int *major, int *minor), *major = card->compute_major; *minor = card->compute_minor)
CARD_CALL(nvmlDeviceGetNumaNodeId, (nvmlDevice_t device, unsigned *node), ONLY_IF(card->numa_node >= 0, *node = card->numa_node))

static void put_pci(const char *bus_text, nvmlPciInfo_t *pci) {
    unsigned domain = 0, bus = 0, slot = 0;
    sscanf(bus_text, "%x:%x:%x", &domain, &bus, &slot);
    *pci = (nvmlPciInfo_t){.domain = domain, .bus = bus, .device = slot, .pciDeviceId = 0x20b210de, .pciSubSystemId = 0x147f10de};
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", domain, bus & 0xff, slot & 0x1f);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff, slot & 0x1f);
}
CARD_CALL(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_t *pci), put_pci(card->bus, pci))
CARD_CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci), put_pci(card->bus, pci))
CARD_CALL(nvmlDeviceGetCurrPcieLinkGeneration, (nvmlDevice_t device, unsigned *value), *value = card->pcie_generation)
CARD_CALL(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *value), *value = card->pcie_generation)
CARD_CALL(nvmlDeviceGetCurrPcieLinkWidth, (nvmlDevice_t device, unsigned *value), *value = card->pcie_width)
CARD_CALL(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned *value), *value = card->pcie_width)
CARD_CALL(nvmlDeviceGetPcieReplayCounter, (nvmlDevice_t device, unsigned *value), *value = 0)
CARD_CALL(nvmlDeviceGetPcieThroughput, (nvmlDevice_t device, nvmlPcieUtilCounter_t counter, unsigned *value),
          *value = counter == NVML_PCIE_UTIL_TX_BYTES ? card->pcie_tx : card->pcie_rx)

/* ---- one card: how it is ---- */

ANY_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory),
          if (slot >= 0) { memory->total = card->migs[slot].bytes; memory->used = card->migs[slot].used; memory->free = memory->total - memory->used; }
          else ONLY_IF(card->memory >= 0, /* v1: used counts what is reserved */
          memory->total = card->memory; memory->used = card->memory_used + card->memory_reserved; memory->free = memory->total - memory->used))
ANY_CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory),
          if (memory->version != nvmlMemory_v2) answer = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
          else if (slot >= 0) { memory->total = card->migs[slot].bytes; memory->reserved = 0; memory->used = card->migs[slot].used; memory->free = memory->total - memory->used; }
          else ONLY_IF(card->memory >= 0, memory->total = card->memory; memory->reserved = card->memory_reserved; memory->used = card->memory_used;
                       memory->free = memory->total - memory->used - memory->reserved))
CARD_CALL(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t *memory),
          memory->bar1Total = 128ULL << 30; memory->bar1Used = 1 << 20; memory->bar1Free = memory->bar1Total - memory->bar1Used)
CARD_CALL(nvmlDeviceGetConfComputeMemSizeInfo, (nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *memory),
          memory->protectedMemSizeKib = 0; memory->unprotectedMemSizeKib = card->memory >> 10)
CARD_CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t *rates),
          ONLY_IF(card->mig_mode != 1, rates->gpu = card->utilisation; rates->memory = card->memory_utilisation))
CARD_CALL(nvmlDeviceGetEncoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period_us), *percent = 0; *period_us = 167000)
CARD_CALL(nvmlDeviceGetDecoderUtilization, (nvmlDevice_t device, unsigned *percent, unsigned *period_us), *percent = 0; *period_us = 167000)
CARD_CALL(nvmlDeviceGetTemperature, (nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *degrees), (void)sensor; ONLY_IF(card->temperature >= 0, *degrees = card->temperature))
CARD_CALL(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_t *value), ONLY_IF(card->temperature >= 0, value->temperature = card->temperature))
CARD_CALL(nvmlDeviceGetTemperatureThreshold, (nvmlDevice_t device, nvmlTemperatureThresholds_t kind, unsigned *degrees), *degrees = kind == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 92 : 89)
CARD_CALL(nvmlDeviceGetFanSpeed, (nvmlDevice_t device, unsigned *percent), ONLY_IF(card->fan >= 0, *percent = card->fan))
CARD_CALL(nvmlDeviceGetFanSpeed_v2, (nvmlDevice_t device, unsigned fan, unsigned *percent), (void)fan; ONLY_IF(card->fan >= 0, *percent = card->fan))
CARD_CALL(nvmlDeviceGetPowerUsage, (nvmlDevice_t device, unsigned *milliwatts), ONLY_IF(card->power >= 0, *milliwatts = card->power))
CARD_CALL(nvmlDeviceGetEnforcedPowerLimit, (nvmlDevice_t device, unsigned *milliwatts), ONLY_IF(card->power_limit >= 0, *milliwatts = card->power_limit))
CARD_CALL(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t device, unsigned *milliwatts), ONLY_IF(card->power_limit >= 0, *milliwatts = card->power_limit))
CARD_CALL(nvmlDeviceGetPowerManagementDefaultLimit, (nvmlDevice_t device, unsigned *milliwatts), ONLY_IF(card->power_limit >= 0, *milliwatts = card->power_limit))
CARD_CALL(nvmlDeviceGetTotalEnergyConsumption, (nvmlDevice_t device, unsigned long long *millijoules), ONLY_IF(card->energy, *millijoules = card->energy))
CARD_CALL(nvmlDeviceGetPerformanceState, (nvmlDevice_t device, nvmlPstates_t *state), *state = card->pstate)
CARD_CALL(nvmlDeviceGetClockInfo, (nvmlDevice_t device, nvmlClockType_t kind, unsigned *mhz), *mhz = kind == NVML_CLOCK_MEM ? card->memory_clock : card->sm_clock)
CARD_CALL(nvmlDeviceGetMaxClockInfo, (nvmlDevice_t device, nvmlClockType_t kind, unsigned *mhz), *mhz = kind == NVML_CLOCK_MEM ? card->max_memory_clock : card->max_sm_clock)
CARD_CALL(nvmlDeviceGetCurrentClocksEventReasons, (nvmlDevice_t device, unsigned long long *bits), *bits = card->throttle)
CARD_CALL(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t device, unsigned long long *bits), *bits = card->throttle)
CARD_CALL(nvmlDeviceGetComputeMode, (nvmlDevice_t device, nvmlComputeMode_t *mode), *mode = NVML_COMPUTEMODE_DEFAULT)
CARD_CALL(nvmlDeviceGetPersistenceMode, (nvmlDevice_t device, nvmlEnableState_t *mode), *mode = card->persistence)
CARD_CALL(nvmlDeviceGetDisplayMode, (nvmlDevice_t device, nvmlEnableState_t *mode), *mode = NVML_FEATURE_DISABLED)
CARD_CALL(nvmlDeviceGetDisplayActive, (nvmlDevice_t device, nvmlEnableState_t *mode), *mode = NVML_FEATURE_DISABLED)
CARD_CALL(nvmlDeviceGetEccMode, (nvmlDevice_t device, nvmlEnableState_t *now, nvmlEnableState_t *pending), ONLY_IF(card->ecc >= 0, *now = *pending = card->ecc))
CARD_CALL(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t device, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t counter, unsigned long long *count),
          (void)counter; ONLY_IF(card->ecc > 0, *count = kind == NVML_MEMORY_ERROR_TYPE_CORRECTED ? card->ecc_corrected : card->ecc_uncorrected))
CARD_CALL(nvmlDeviceGetRemappedRows, (nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed),
          *corrected = *uncorrected = *pending = *failed = 0)
CARD_CALL(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *now, unsigned *pending), ONLY_IF(card->mig_mode >= 0, *now = *pending = card->mig_mode))
CARD_CALL(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned *count), *count = card->mig_mode == 1 ? MAX_SLOTS : 0)
CARD_CALL(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, unsigned index, nvmlDevice_t *instance),
          if (index >= MAX_SLOTS) answer = NVML_ERROR_INVALID_ARGUMENT;
          else if (!*card->migs[index].uuid) answer = NVML_ERROR_NOT_FOUND;
          else { *instance = (nvmlDevice_t)(size_t)(INSTANCES * (index + 1) + (card - cards) + 1);
                 answer = fault_of(card, index, "nvmlDeviceGetMigDeviceHandleByIndex"); })
MIG_CALL(nvmlDeviceGetGpuInstanceId, (nvmlDevice_t device, unsigned *id), *id = mig->gi)
MIG_CALL(nvmlDeviceGetComputeInstanceId, (nvmlDevice_t device, unsigned *id), *id = mig->ci)
MIG_CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t device, nvmlDevice_t *whole), (void)mig; *whole = (nvmlDevice_t)((size_t)device % INSTANCES))
ANY_CALL(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned *is_mig), *is_mig = slot >= 0)
CARD_CALL(nvmlDeviceGetCpuAffinity, (nvmlDevice_t device, unsigned words, unsigned long *set),
          memset(set, 0, words * sizeof *set); if (words) set[0] = (1UL << sysconf(_SC_NPROCESSORS_ONLN)) - 1)
CARD_CALL(nvmlDeviceGetDriverModel, (nvmlDevice_t device, nvmlDriverModel_t *now, nvmlDriverModel_t *pending), (void)now; (void)pending; answer = NVML_ERROR_NOT_SUPPORTED)
CARD_CALL(nvmlDeviceGetDriverModel_v2, (nvmlDevice_t device, nvmlDriverModel_t *now, nvmlDriverModel_t *pending), (void)now; (void)pending; answer = NVML_ERROR_NOT_SUPPORTED)

/* ---- one card: who is on it ---- */

/* Of a whole card all of them, of an instance (slot >= 0) its own. */
static nvmlReturn_t put_processes(const Card *card, int slot, char kind, unsigned *count, nvmlProcessInfo_v2_t *now, nvmlProcessInfo_v1_t *old) {
    unsigned have = 0, room = *count, at = 0;
    for (int i = 0; i < card->process_count; i++) have += card->processes[i].kind == kind && (slot < 0 || card->processes[i].slot == slot);
    *count = have;
    if (!have) return NVML_SUCCESS;
    if (room < have || (!now && !old)) return NVML_ERROR_INSUFFICIENT_SIZE;
    for (int i = 0; i < card->process_count; i++) {
        const Process *process = &card->processes[i];
        if (process->kind != kind || (slot >= 0 && process->slot != slot)) continue;
        if (old) { old[at].pid = process->pid; old[at].usedGpuMemory = process->bytes; }
        else {
            const Mig *mig = process->slot < 0 ? NULL : &card->migs[process->slot];
            now[at] = (nvmlProcessInfo_v2_t){process->pid, process->bytes, mig ? mig->gi : NOT_ASKED, mig ? mig->ci : NOT_ASKED};
        }
        at++;
    }
    return NVML_SUCCESS;
}
#define PROCESS_CALLS(stem, kind)                                                                                              \
    ANY_CALL(stem, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *list), answer = put_processes(card, slot, kind, count, NULL, list))      \
    ANY_CALL(stem##_v2, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *list), answer = put_processes(card, slot, kind, count, list, NULL)) \
    ANY_CALL(stem##_v3, (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *list), answer = put_processes(card, slot, kind, count, (nvmlProcessInfo_v2_t *)list, NULL))
PROCESS_CALLS(nvmlDeviceGetComputeRunningProcesses, 'c')
PROCESS_CALLS(nvmlDeviceGetGraphicsRunningProcesses, 'g')
PROCESS_CALLS(nvmlDeviceGetMPSComputeRunningProcesses, 'm')
CARD_CALL(nvmlDeviceGetProcessUtilization, (nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, unsigned *count, unsigned long long since),
          (void)since; unsigned have = card->process_count;
          if (card->mig_mode == 1) answer = NVML_ERROR_NOT_SUPPORTED;
          else if (!have) answer = NVML_ERROR_NOT_FOUND;
          else if (!samples || *count < have) { *count = have; answer = NVML_ERROR_INSUFFICIENT_SIZE; }
          else {
              struct timespec now; clock_gettime(CLOCK_REALTIME, &now); *count = have;
              for (unsigned i = 0; i < have; i++)
                  samples[i] = (nvmlProcessUtilizationSample_t){.pid = card->processes[i].pid, .smUtil = card->processes[i].sm,
                                                                .timeStamp = now.tv_sec * 1000000ULL + now.tv_nsec / 1000};
          })

/* ---- events: one set, every card in it ---- */

SYSTEM_CALL(nvmlEventSetCreate, (nvmlEventSet_t *set), *set = (nvmlEventSet_t)(void *)events; event_count = 0)
SYSTEM_CALL(nvmlEventSetFree, (nvmlEventSet_t set), (void)set)
CARD_CALL(nvmlDeviceGetSupportedEventTypes, (nvmlDevice_t device, unsigned long long *types), *types = nvmlEventTypeXidCriticalError)
CARD_CALL(nvmlDeviceRegisterEvents, (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set), (void)types; (void)set)
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeout_ms) {
    (void)set;
    for (unsigned waited = 0;; waited += 10) {
        pthread_mutex_lock(&lock);
        read_description();
        if (event_count) {
            *data = (nvmlEventData_t){(nvmlDevice_t)(size_t)(events[0].card + 1), nvmlEventTypeXidCriticalError, events[0].xid, events[0].gi, NOT_ASKED};
            memmove(events, events + 1, --event_count * sizeof *events);
            pthread_mutex_unlock(&lock);
            return NVML_SUCCESS;
        }
        pthread_mutex_unlock(&lock);
        if (waited >= timeout_ms) return NVML_ERROR_TIMEOUT;
        usleep(10000);
    }
}

/* ---- how cards reach each other ---- */

CARD_CALL(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t device, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level),
          int peer = (int)((size_t)other % INSTANCES) - 1; *level = peer == card - cards ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SYSTEM;
          for (int i = 0; i < card->near_count; i++) if (card->near[i].peer == peer) *level = card->near[i].level)
CARD_CALL(nvmlDeviceGetP2PStatus, (nvmlDevice_t device, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t what, nvmlGpuP2PStatus_t *status),
          (void)other; (void)what; *status = NVML_P2P_STATUS_OK)
static const Link *link_of(const Card *card, unsigned number) {
    for (int i = 0; i < card->link_count; i++) if (card->links[i].link == (int)number) return &card->links[i];
    return NULL;
}
CARD_CALL(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, nvmlEnableState_t *state),
          if (link >= MAX_LINKS) answer = NVML_ERROR_INVALID_ARGUMENT; else ONLY_IF(card->link_count, *state = link_of(card, link) != NULL))
CARD_CALL(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned link, unsigned *version), (void)link; ONLY_IF(card->link_count, *version = 3))
CARD_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci), ONLY_IF(link_of(card, link), put_pci(link_of(card, link)->peer, pci)))
CARD_CALL(nvmlDeviceGetNvLinkErrorCounter, (nvmlDevice_t device, unsigned link, nvmlNvLinkErrorCounter_t counter, unsigned long long *count),
          (void)link; (void)counter; ONLY_IF(card->link_count, *count = 0))
CARD_CALL(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values),
          for (int i = 0; i < count; i++) {
              values[i].nvmlReturn = NVML_SUCCESS; values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT; values[i].value.ullVal = 0;
              if (values[i].fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT && card->link_count) values[i].value.uiVal = card->link_count;
              else if (values[i].fieldId == NVML_FI_DEV_MEMORY_TEMP) values[i].value.uiVal = card->temperature + 8;
              else values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
          })
