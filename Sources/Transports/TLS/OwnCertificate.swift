internal import COpenSSL
internal import Glibc

/// The certificate that a listener shows.
public struct OwnCertificate: Sendable, Equatable {
    /// The certificate's subject, as RFC 2253 writes it; nil where it says nothing that can be read.
    public let subject: String?
    /// When it ends, in milliseconds since 1970; nil for a time that is none.
    public let notAfter: UInt64?

    /// What a context shows; nil for one that has no certificate, such as of pre-shared keys.
    init?(shownBy context: OpaquePointer) {
        guard let certificate = SSL_CTX_get0_certificate(context) else { return nil }
        subject = CertificateName.subject(X509_get_subject_name(certificate))
        var time = tm()
        guard let end = X509_get0_notAfter(certificate), ASN1_TIME_to_tm(end, &time) == 1 else {
            notAfter = nil
            return
        }
        notAfter = UInt64(clamping: timegm(&time)) * 1000
    }
}
