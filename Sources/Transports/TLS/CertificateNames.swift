internal import Bytes
internal import COpenSSL

/// The names in a certificate that was verified.
public struct CertificateNames: Sendable, Equatable {
    /// In the order of the certificate, as the lists below.
    public var commonNames: [String] = []
    public var organizationalUnits: [String] = []
    /// The whole subject, as RFC 2253 writes it: last part first; nil where it is no text.
    public var subject: String?
    /// Of the alternative names.
    public var uris: [String] = []
    public var dnsNames: [String] = []
    public var emailAddresses: [String] = []
    /// Other parts of the subject, but for what is no text, or holds a zero byte.
    public var otherParts: [CertificatePartKind: [String]] = [:]
    /// Which of them holds a zero byte, or is no text, as a part of a sentence; nil for none. A zero inside has been
    /// used to pass for another name: such a certificate says nothing that can be trusted.
    public private(set) var objection: String?

    public init() {}

    /// - Parameter certificate: OpenSSL's.
    init(of certificate: OpaquePointer) {
        withUnsafeMutablePointer(to: &self) { names in
            openssl_each_subject_entry(certificate, NID_commonName, names, takeName)
            openssl_each_subject_entry(certificate, NID_organizationalUnitName, names, takeName)
            openssl_each_alternative_name(certificate, names, takeName)
            for kind in CertificatePartKind.allCases {
                kind.number.map { openssl_each_subject_entry(certificate, $0, names, takePart) }
            }
        }
        subject = CertificateName.subject(X509_get_subject_name(certificate))
    }

    fileprivate mutating func take(_ kind: CertificatePartKind, _ bytes: UnsafeBufferPointer<UInt8>?) {
        guard let bytes, !bytes.isEmpty, !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else { return }
        otherParts[kind, default: []].append(text)
    }

    /// What the certificate has of a part, in its order.
    public func values(of kind: CertificatePartKind) -> [String] {
        switch kind {
        case .organizationalUnit: organizationalUnits
        case .commonName: commonNames
        case .uri: uris
        case .dns: dnsNames
        case .email: emailAddresses
        case .organization, .locality, .state, .country, .domainComponent, .userIdentifier: otherParts[kind] ?? []
        }
    }

    fileprivate mutating func take(_ kind: CertificateNameKind, _ bytes: UnsafeBufferPointer<UInt8>?) {
        guard let bytes, !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
            let hasZero = bytes?.contains(0) ?? false
            if objection == nil { objection = "its \(kind.words) \(hasZero ? "holds a zero byte" : "is no text")" }
            return
        }
        switch kind {
        case .commonName: commonNames.append(text)
        case .organizationalUnit: organizationalUnits.append(text)
        case .uri: uris.append(text)
        case .dns: dnsNames.append(text)
        case .email: emailAddresses.append(text)
        }
    }
}

/// A certificate as people have it: a PEM file, of which the first one counts, the Base64 that stands in one, or the
/// DER that this stands for.
public struct CertificateFile {
    /// DER, as far as the file says so itself: nobody has looked into it.
    let bytes: [UInt8]

    /// Nil for what is none of the three.
    public init?(_ file: [UInt8]) {
        // A sequence: no text begins so.
        if file.first == 0x30, file.dropFirst().first.map({ $0 >= 0x80 }) ?? false {
            bytes = file
            return
        }
        var body = file[...]
        if let start = Self.range(of: "-----BEGIN CERTIFICATE-----", in: body) {
            body = body[start.upperBound...]
            guard let end = Self.range(of: "-----END CERTIFICATE-----", in: body) else { return nil }
            body = body[..<end.lowerBound]
        }
        let letters = body.filter { !" \t\r\n".utf8.contains($0) }
        guard !letters.isEmpty, let bytes = Base64.decode(String(decoding: letters, as: UTF8.self)) else { return nil }
        self.bytes = bytes
    }

    /// Its Base64, without line breaks.
    public var text: String { Base64.encode(bytes) }

    private static func range(of marker: String, in bytes: ArraySlice<UInt8>) -> Range<Int>? {
        let marker = Array(marker.utf8)
        let start = bytes.indices.first { bytes[$0...].starts(with: marker) }
        return start.map { $0..<($0 + marker.count) }
    }
}

extension PeerIdentity {
    /// Who somebody with a certificate would be, whoever has signed it: for administrators who ask.
    ///
    /// - Parameter text: see `CertificateFile`; nil is returned for anything else.
    public init?(showing text: String) {
        guard let file = CertificateFile(Array(text.utf8)) else { return nil }
        self.init()
        defer { OpenSSLErrors.clear() }
        let isRead = file.bytes.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            guard let certificate = d2i_X509(nil, &start, buffer.count) else { return false }
            defer { X509_free(certificate) }
            take(certificate)
            return true
        }
        guard isRead else { return nil }
    }

    /// Takes what a certificate says.
    ///
    /// - Parameter certificate: OpenSSL's.
    mutating func take(_ certificate: OpaquePointer) {
        let name = X509_get_subject_name(certificate)
        certificateCommonName = CertificateName.commonName(of: name)
        certificateSubject = CertificateName.subject(name)
        self.certificate = CertificateNames(of: certificate)
    }
}

/// A kind of name in a certificate.
private enum CertificateNameKind: Int32 {
    case commonName
    case organizationalUnit
    case uri
    case dns
    case email

    var words: String {
        switch self {
        case .commonName: "common name"
        case .organizationalUnit: "organizational unit"
        case .uri: "URI"
        case .dns: "DNS name"
        case .email: "e-mail address"
        }
    }
}

/// OpenSSL tells of a name; of one that it cannot read without bytes.
private func takeName(_ names: UnsafeMutableRawPointer?, _ kind: Int32, _ bytes: UnsafePointer<UInt8>?, _ count: Int32) {
    guard let names = names?.assumingMemoryBound(to: CertificateNames.self) else { return }
    let known: CertificateNameKind? =
        switch kind {
        case NID_commonName: .commonName
        case NID_organizationalUnitName: .organizationalUnit
        case GEN_URI: .uri
        case GEN_DNS: .dns
        case GEN_EMAIL: .email
        default: nil
        }
    guard let known else { return }
    names.pointee.take(known, count < 0 ? nil : UnsafeBufferPointer(start: bytes, count: Int(count)))
}

/// OpenSSL tells of another part of a subject.
private func takePart(_ names: UnsafeMutableRawPointer?, _ number: Int32, _ bytes: UnsafePointer<UInt8>?, _ count: Int32) {
    guard let names = names?.assumingMemoryBound(to: CertificateNames.self),
        let kind = CertificatePartKind.allCases.first(where: { $0.number == number })
    else { return }
    names.pointee.take(kind, count < 0 ? nil : UnsafeBufferPointer(start: bytes, count: Int(count)))
}

/// A part of a certificate that says what its owner belongs to.
public enum CertificatePartKind: String, Sendable, CaseIterable {
    case organizationalUnit = "ou"
    case organization = "o"
    case commonName = "cn"
    case locality = "l"
    case state = "st"
    case country = "c"
    case domainComponent = "dc"
    case userIdentifier = "uid"
    case uri = "san-uri"
    case dns = "san-dns"
    case email = "san-email"

    /// OpenSSL's number; nil for what is read as a name anyway.
    fileprivate var number: Int32? {
        switch self {
        case .organization: NID_organizationName
        case .locality: NID_localityName
        case .state: NID_stateOrProvinceName
        case .country: NID_countryName
        case .domainComponent: NID_domainComponent
        case .userIdentifier: NID_userId
        case .organizationalUnit, .commonName, .uri, .dns, .email: nil
        }
    }
}

/// Whom a certificate puts into a group, or gives a role.
public struct CertificateMembership: Sendable, Equatable {
    public let part: CertificatePartKind
    /// What the part has to be; nil where each value of the part is a name itself.
    public let value: String?
    /// The group or role; nil likewise.
    public let name: String?

    public init(_ part: CertificatePartKind, value: String?, name: String?) {
        (self.part, self.value, self.name) = (part, value, name)
    }

    /// The groups or roles of a certificate.
    public func names(in certificate: CertificateNames) -> [String] {
        let values = certificate.values(of: part)
        guard let value, let name else { return values }
        return values.contains(value) ? [name] : []
    }
}

/// An attribute that a certificate gives.
public struct CertificateAttribute: Sendable, Equatable {
    public let name: String
    public let part: CertificatePartKind

    public init(name: String, part: CertificatePartKind) { (self.name, self.part) = (name, part) }
}

/// Which name of a certificate is meant.
public struct CertificateNameSelector: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
        case commonName = "cn"
        case subject
        case uri = "san-uri"
        case dns = "san-dns"
        case email = "san-email"
        /// The only URI, which begins with `spiffe://` (SPIFFE's X.509-SVID, section 2).
        case spiffe
    }

    public let kind: Kind
    /// Which of several, counted from 1; nil where there must be one alone.
    public let index: Int?

    public init(_ kind: Kind, index: Int? = nil) { (self.kind, self.index) = (kind, index) }

    /// Why a certificate has not the name, as a part of a sentence.
    public struct Refusal: Error, Sendable, Equatable {
        public let words: String
    }

    /// The name of a certificate.
    public func name(in names: CertificateNames) throws(Refusal) -> String {
        if let objection = names.objection { throw Refusal(words: objection) }
        let (found, word) = candidates(in: names)
        guard !found.isEmpty else { throw Refusal(words: "it has no \(word)") }
        if let index {
            guard found.indices.contains(index - 1) else {
                throw Refusal(words: "it has \(found.count) of the kind \(kind.rawValue), and number \(index) is asked for")
            }
            return try checked(found[index - 1], word)
        }
        guard found.count == 1 else {
            let remedy = kind == .spiffe ? "" : " (\(kind.rawValue) 1 takes the first)"
            throw Refusal(words: "it has \(found.count) of the kind \(kind.rawValue), and one is asked for\(remedy)")
        }
        return try checked(found[0], word)
    }

    private func candidates(in names: CertificateNames) -> (names: [String], word: String) {
        switch kind {
        case .commonName: (names.commonNames, "common name")
        case .subject: (names.subject.map { [$0] } ?? [], "subject")
        case .uri, .spiffe: (names.uris, "URI among its alternative names")
        case .dns: (names.dnsNames, "DNS name among its alternative names")
        case .email: (names.emailAddresses, "e-mail address among its alternative names")
        }
    }

    private func checked(_ name: String, _ word: String) throws(Refusal) -> String {
        guard !name.isEmpty else { throw Refusal(words: "its \(word) is empty") }
        let scheme = "spiffe://"
        if kind == .spiffe, !name.hasPrefix(scheme) || name.utf8.count == scheme.utf8.count || name.hasPrefix("spiffe:///") {
            throw Refusal(words: "its URI is no SPIFFE ID (spiffe://TRUST-DOMAIN/PATH)")
        }
        return name
    }
}

/// What of a client's certificate is its user name, and what its Client Identifier.
public struct CertificateNaming: Sendable, Equatable {
    public var userName: CertificateNameSelector?
    public var clientIdentifier: CertificateNameSelector?
    /// The groups and roles that it has by its certificate, and its attributes.
    public var groups: [CertificateMembership] = []
    public var roles: [CertificateMembership] = []
    public var attributes: [CertificateAttribute] = []

    public init(userName: CertificateNameSelector? = nil, clientIdentifier: CertificateNameSelector? = nil) {
        (self.userName, self.clientIdentifier) = (userName, clientIdentifier)
    }
}
