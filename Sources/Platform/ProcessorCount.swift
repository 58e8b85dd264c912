/// The machine's processors, as far as they are ours.
public enum ProcessorCount {
    /// How many processors the calling thread may run on (its affinity mask, as `taskset` and cpusets set it); at least 1.
    public static func usable() -> Int {
        SystemCall.usableProcessors()
    }
}
