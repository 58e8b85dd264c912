internal import BrokerModel
internal import CXXHash

/// The checksum of a row: XXH3 over its body, begun with its table and key, so that a right body in a wrong place is found as well.
enum RowChecksum {
    static func of(_ body: UnsafeRawBufferPointer, _ table: StoreTable, key: UInt64) -> UInt64 {
        of(body, tableNumber: table.rawValue, key: key)
    }

    static func of(_ body: UnsafeRawBufferPointer, tableNumber: UInt8, key: UInt64) -> UInt64 {
        xxhash_checksum(body.baseAddress, body.count, key &+ UInt64(tableNumber) &* 0x9E37_79B9_7F4A_7C15)
    }
}
