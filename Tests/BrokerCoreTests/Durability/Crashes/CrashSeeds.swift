import Glibc

/// The seeds that the crash tests run: a few hundred, or what the environment says.
enum CrashSeeds {
    private static let defaultCount: UInt64 = 300
    private static let perPart: UInt64 = 25

    static var parts: [ClosedRange<UInt64>] {
        if let seed = number("MARTLET_SEED") { return [seed...seed] }
        let count = max(1, number("MARTLET_SEEDS") ?? defaultCount)
        return stride(from: 1, through: count, by: Int(perPart)).map { $0...min(count, $0 + perPart - 1) }
    }

    private static func number(_ name: String) -> UInt64? {
        guard let text = getenv(name) else { return nil }
        return UInt64(String(cString: text))
    }
}
