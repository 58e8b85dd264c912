import Glibc

/// The seeds that a simulation's test runs: `MARTLET_SEED` is one, `MARTLET_SEEDS` how many.
public enum Seeds {
    /// Ranges of so many seeds, for as many runs side by side.
    ///
    /// - Parameters:
    ///   - defaultCount: how many there are where the environment says nothing.
    ///   - perPart: how many one run takes.
    public static func parts(_ defaultCount: UInt64, perPart: UInt64) -> [ClosedRange<UInt64>] {
        if let seed = number("MARTLET_SEED") { return [seed...seed] }
        let count = max(1, number("MARTLET_SEEDS") ?? defaultCount)
        return stride(from: 1, through: count, by: Int(perPart)).map { $0...min(count, $0 + perPart - 1) }
    }

    /// How to run a seed by itself: the command, for the message of a failure.
    ///
    /// - Parameters:
    ///   - seed: which.
    ///   - file: module and file of the test, whose suite is named like its file.
    public static func replay(_ seed: UInt64, file: StaticString = #fileID) -> String {
        let suite = "\(file)".split(separator: "/").map { $0.prefix { $0 != "." } }.joined(separator: ".")
        return "MARTLET_SEED=\(seed) swift test --filter '\(suite)/'"
    }

    private static func number(_ name: String) -> UInt64? {
        guard let text = getenv(name) else { return nil }
        return UInt64(String(cString: text))
    }
}
