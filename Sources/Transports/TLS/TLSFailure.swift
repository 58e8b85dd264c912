internal import COpenSSL
internal import Glibc

/// Why a listener's or a client's TLS cannot be set up: the option, its file or value, and the reason.
public struct TLSFailure: Error, Sendable, Equatable {
    /// As the configuration names it, such as `certfile`.
    public let option: String
    public let value: String
    public let reason: String
}

extension TLSContext {
    /// Remarks on what is probably not meant in the files, though they can be used: certificates whose time is not now.
    public var remarks: [TLSFailure] {
        var remarks: [TLSFailure] = []
        if let path = settings.certificateFile, let certificate = SSL_CTX_get0_certificate(pointer),
            let reason = CertificateDates.complaint(about: certificate)
        {
            remarks.append(
                TLSFailure(option: "certfile", value: path, reason: "the certificate \(reason). Clients will refuse it; renew it"))
        }
        guard let path = settings.authoritiesFile, !settings.ignoresCertificateDates, let store = SSL_CTX_get_cert_store(pointer),
            let objects = X509_STORE_get0_objects(store)
        else { return remarks }
        for index in 0..<OPENSSL_sk_num(objects) {
            guard let object = OPENSSL_sk_value(objects, index), let authority = X509_OBJECT_get0_X509(OpaquePointer(object)),
                let reason = CertificateDates.complaint(about: authority)
            else { continue }
            let name = CertificateName.subject(X509_get_subject_name(authority)) ?? "without a name"
            remarks.append(
                TLSFailure(
                    option: "cafile", value: path,
                    reason: "the CA certificate \(name) \(reason). Clients with its certificates cannot log in; renew it")
            )
        }
        return remarks
    }
}

/// The time for which a certificate is good.
enum CertificateDates {
    /// Why a certificate is not good now, as a part of a sentence; nil when it is.
    static func complaint(about certificate: OpaquePointer) -> String? {
        if let end = X509_get0_notAfter(certificate), X509_cmp_current_time(end) < 0 { return "has expired on \(day(end))" }
        if let start = X509_get0_notBefore(certificate), X509_cmp_current_time(start) > 0 {
            return "is not valid before \(day(start))"
        }
        return nil
    }

    private static func day(_ time: UnsafePointer<ASN1_TIME>) -> String {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return "a day that it does not tell" }
        func digits(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        return "\(parts.tm_year + 1900)-\(digits(parts.tm_mon + 1))-\(digits(parts.tm_mday))"
    }
}

extension TLSFailure: CustomStringConvertible {
    /// `certfile /etc/martlet/cert.pem: No such file or directory`.
    public var description: String { value.isEmpty ? "\(option): \(reason)" : "\(option) \(value): \(reason)" }
}
