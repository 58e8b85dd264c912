internal import CArgon2
internal import Platform

/// Argon2id, version 1.3, by the reference library.
enum Argon2 {
    /// What a hash costs.
    struct Cost: Hashable, Sendable {
        /// Memory in KiB.
        var memoryKiB: UInt32
        /// Passes over the memory.
        var passes: UInt32
        /// Lanes, each of which is a thread of its own while the hash is made.
        var lanes: UInt32

        /// What mosquitto 2.1 uses.
        static let standard = Cost(memoryKiB: 47_104, passes: 1, lanes: 1)
        /// The most that a password file may ask of the broker: 1 GiB, and seconds of work.
        static let maximum = Cost(memoryKiB: 1 << 20, passes: 64, lanes: 16)

        /// Whether Argon2 can do it and a broker can bear it.
        var isAcceptable: Bool {
            let maximum = Cost.maximum
            return lanes >= 1 && lanes <= maximum.lanes && passes >= 1 && passes <= maximum.passes
                && memoryKiB >= 8 * lanes && memoryKiB <= maximum.memoryKiB
        }
    }

    /// The version that everybody uses, 1.3.
    static let version: UInt32 = 0x13

    /// The hash, or nil when there is no memory for it.
    static func hash(password: [UInt8], salt: [UInt8], cost: Cost, count: Int) -> [UInt8]? {
        var result: Int32 = 0
        let hash = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            result = argon2_hash(
                cost.passes, cost.memoryKiB, cost.lanes, password, password.count, salt, salt.count, buffer.baseAddress, count,
                nil, 0, Argon2_id, version)
            initialized = result == ARGON2_OK.rawValue ? count : 0
        }
        return result == ARGON2_OK.rawValue ? hash : nil
    }
}

/// Random bytes of the kernel, for salts and nonces.
enum Salt {
    static func make(count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            RandomBytes.fill(UnsafeMutableRawBufferPointer(buffer))
            initialized = count
        }
    }
}
