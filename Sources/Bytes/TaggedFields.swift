/// A value that is stored as fields, each with a number of its own, its tag, so that a later version adds some.
///
///     how many 1 | tag 1 · length 1 · value, by rising tag
///
/// A length from 128 on takes two bytes or more, of seven bits each, the lowest first.
///
/// Public, though only the house's own targets use it: what is inlinable is inlined into other targets if it is public.
///
/// One declaration, `code`, reads and writes. A tag is never given to anything else. Tags that a version does not know
/// are passed over, so a later version's value can be read, without what is new in it; a part of a value cannot, nor
/// can more than one.
public protocol FieldCoded {
    /// What a value is before its fields are read.
    static var blank: Self { get }

    /// Gives every field to `coder`, by rising tag: it writes what is there, or puts there what it has read.
    mutating func code(_ coder: inout some FieldCoder)
}

extension FieldCoded {
    /// Reads a value; nil if the bytes are not one, or lack a field that has to be there.
    @inlinable public init?(fields bytes: UnsafeRawBufferPointer) {
        var reader = FieldReader(bytes)
        var value = Self.blank
        value.code(&reader)
        guard reader.isRight else { return nil }
        self = value
    }

    /// The value as bytes.
    @inlinable public var encodedFields: [UInt8] {
        var writer = FieldWriter()
        var value = self
        value.code(&writer)
        return writer.bytes
    }
}

/// Writes a value's fields, or reads them.
public protocol FieldCoder {
    /// Writes a field and gives it back, or leaves it out if it is nil; or gives back the field that was read, nil for
    /// none.
    mutating func exchange<Value: FieldValue>(_ tag: UInt8, _ value: Value?) -> Value?

    /// Takes note that the bytes are no such fields.
    mutating func refuse()
}

extension FieldCoder {
    /// A field that has to be there.
    @inlinable public mutating func field<Value: FieldValue>(_ tag: UInt8, _ place: inout Value) {
        if let value = exchange(tag, place) { place = value } else { refuse() }
    }

    /// A field that is left out where it is what it mostly is.
    @inlinable public mutating func field<Value: FieldValue & Equatable>(_ tag: UInt8, _ place: inout Value, mostly common: Value) {
        place = exchange(tag, place == common ? nil : place) ?? common
    }

    /// A field that may be left out.
    @inlinable public mutating func field<Value: FieldValue>(_ tag: UInt8, _ place: inout Value?) {
        place = exchange(tag, place)
    }

    /// A field that has to be there, of a type that is stored as another.
    ///
    /// - Parameters:
    ///   - stored: what stands for a value.
    ///   - value: the value for which that stands; nil if it stands for none.
    @inlinable public mutating func field<Value, Stored: FieldValue>(
        _ tag: UInt8, _ place: inout Value, as stored: (Value) -> Stored, _ value: (Stored) -> Value?
    ) {
        if let new = exchange(tag, stored(place)).flatMap(value) { place = new } else { refuse() }
    }

    /// A field that may be left out, of a type that is stored as another.
    @inlinable public mutating func field<Value, Stored: FieldValue>(
        _ tag: UInt8, _ place: inout Value?, as stored: (Value) -> Stored, _ value: (Stored) -> Value?
    ) {
        guard let found = exchange(tag, place.map(stored)) else {
            place = nil
            return
        }
        if let new = value(found) { place = new } else { refuse() }
    }
}

/// Writes a value's fields.
public struct FieldWriter: FieldCoder {
    @usableFromInline var bytes: [UInt8] = []

    /// No field yet.
    @inlinable public init() {
        bytes.reserveCapacity(64)
        bytes.append(0)
    }

    @inlinable public mutating func exchange<Value: FieldValue>(_ tag: UInt8, _ value: Value?) -> Value? {
        guard let value else { return nil }
        begin(tag)
        let start = bytes.count
        value.append(to: &bytes)
        end(start)
        return value
    }

    @inlinable public mutating func refuse() {}

    @usableFromInline mutating func begin(_ tag: UInt8) {
        bytes[0] += 1
        bytes.append(tag)
        bytes.append(0)
    }

    /// Writes the length of the value that begins there, in front of it.
    @usableFromInline mutating func end(_ start: Int) {
        var length = bytes.count - start
        bytes[start - 1] = UInt8(length & 127)
        var place = start
        while length > 127 {
            length >>= 7
            bytes[place - 1] |= 128
            bytes.insert(UInt8(length & 127), at: place)
            place += 1
        }
    }
}

/// Reads a value's fields where they lie.
public struct FieldReader: FieldCoder {
    /// The fields that are not read yet.
    private var rest: UnsafeRawBufferPointer
    private var fieldsLeft: UInt8
    /// The field that comes next: 0 behind the last one.
    private var nextTag: UInt8 = 0
    private var next = UnsafeRawBufferPointer(start: nil, count: 0)
    private var isWrong = false

    /// Bytes of a value; `isRight` says in the end whether they are.
    public init(_ bytes: UnsafeRawBufferPointer) {
        fieldsLeft = bytes.first ?? 0
        isWrong = bytes.isEmpty
        rest = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
        advance()
    }

    /// Whether all of the bytes were fields, as far as `code` knows them such as it wants.
    public var isRight: Bool {
        mutating get {
            while nextTag != 0 { advance() }
            return !isWrong && rest.isEmpty
        }
    }

    @inlinable public mutating func exchange<Value: FieldValue>(_ tag: UInt8, _ value: Value?) -> Value? {
        guard let bytes = take(tag) else { return nil }
        let found = Value(field: bytes)
        if found == nil { refuse() }
        return found
    }

    public mutating func refuse() { isWrong = true }

    /// The value of a field; nil if there is none.
    @usableFromInline mutating func take(_ tag: UInt8) -> UnsafeRawBufferPointer? {
        while nextTag != 0, nextTag < tag { advance() }
        guard nextTag == tag else { return nil }
        defer { advance() }
        return next
    }

    private mutating func advance() {
        let last = nextTag
        nextTag = 0
        guard fieldsLeft > 0, !isWrong else { return }
        fieldsLeft -= 1
        guard let tag = rest.first, tag > last, let (length, size) = Self.length(rest.dropFirst()), length <= rest.count - 1 - size
        else {
            return refuse()
        }
        nextTag = tag
        next = UnsafeRawBufferPointer(rebasing: rest.dropFirst(1 + size).prefix(length))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(1 + size + length))
    }

    /// A length, and how many bytes it takes; nil if it is none, or not written in as few as possible.
    private static func length(_ bytes: Slice<UnsafeRawBufferPointer>) -> (length: Int, size: Int)? {
        var length = 0
        for (index, byte) in bytes.prefix(5).enumerated() {
            length |= Int(byte & 127) << (7 * index)
            if byte < 128 { return byte == 0 && index > 0 ? nil : (length, index + 1) }
        }
        return nil
    }
}

/// What a field may hold.
public protocol FieldValue {
    /// Adds its bytes.
    func append(to bytes: inout [UInt8])

    /// Nil if the bytes are not a value's.
    init?(field bytes: UnsafeRawBufferPointer)
}

/// In as few bytes as they need, the lowest first: none for 0.
extension FieldValue where Self: FixedWidthInteger & UnsignedInteger {
    @inlinable public func append(to bytes: inout [UInt8]) {
        var rest = UInt64(self)
        while rest != 0 {
            bytes.append(UInt8(truncatingIfNeeded: rest))
            rest >>= 8
        }
    }

    @inlinable public init?(field bytes: UnsafeRawBufferPointer) {
        guard bytes.count <= MemoryLayout<Self>.size, bytes.last != 0 else { return nil }
        self.init(truncatingIfNeeded: bytes.reversed().reduce(0 as UInt64) { $0 << 8 | UInt64($1) })
    }
}

extension UInt8: FieldValue {}
extension UInt16: FieldValue {}
extension UInt32: FieldValue {}
extension UInt64: FieldValue {}

extension Bool: FieldValue {
    @inlinable public func append(to bytes: inout [UInt8]) { (self ? 1 as UInt8 : 0).append(to: &bytes) }

    @inlinable public init?(field bytes: UnsafeRawBufferPointer) {
        guard let number = UInt8(field: bytes), number < 2 else { return nil }
        self = number == 1
    }
}

extension [UInt8]: FieldValue {
    @inlinable public func append(to bytes: inout [UInt8]) { bytes.append(contentsOf: self) }

    @inlinable public init?(field bytes: UnsafeRawBufferPointer) { self.init(bytes) }
}

extension String: FieldValue {
    @inlinable public func append(to bytes: inout [UInt8]) { bytes.append(contentsOf: utf8) }

    /// Nil for what is not UTF-8.
    @inlinable public init?(field bytes: UnsafeRawBufferPointer) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
        self = text
    }
}
